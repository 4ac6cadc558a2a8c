//! Random numbers from a seed.

use std::time::Duration;

use tenure_core::random::{Random, SplitMix64};

/// A stream of random numbers that is the same on every machine.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// Creates stream `stream` of this seed. Streams are independent: draws from one do not change
    /// another.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Self::from_seed(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        rng.next_u64();
        rng
    }

    /// Creates the only stream of this seed.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// Returns a number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(end);
        (product >> 64) as u64
    }

    /// Returns `true` with a probability of `per_million` in a million.
    pub fn happens(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.below(1_000_000) < u64::from(per_million)
    }

    /// Returns a duration of at least `least` and below `end`.
    pub fn between(&mut self, least: Duration, end: Duration) -> Duration {
        least + Duration::from_nanos(self.below(nanos(end.saturating_sub(least))))
    }

    /// Returns a random element.
    ///
    /// # Panics
    ///
    /// If the slice is empty.
    pub fn one_of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Returns an exponentially distributed duration with this mean. `libm` computes it in
    /// software, so that it is the same on every machine.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let unit = ((self.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        mean.mul_f64(-libm::log(unit))
    }
}

impl Random for Rng {
    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

/// Returns the duration in nanoseconds, saturating.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

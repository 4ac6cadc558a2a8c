//! Randomness as an argument.

use core::time::Duration;

use crate::lease::LeaseId;

/// The source of a state machine's random bits.
///
/// Outside of tests it must be unpredictable (the source of the operating system), because lease
/// ids are secrets.
pub trait Random {
    /// Returns the next 64 random bits.
    fn next_u64(&mut self) -> u64;
}

/// SplitMix64, for simulations and tests. A seed gives the same numbers on every machine. Lease ids
/// that must be secret must not come from it.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates the generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }
}

impl Random for SplitMix64 {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

impl dyn Random + '_ {
    /// Returns a fresh lease id from 122 random bits.
    pub fn lease_id(&mut self) -> LeaseId {
        LeaseId::from_random_bits(self.next_u64(), self.next_u64())
    }

    /// Returns `duration`, up to a tenth shorter or longer, so that candidates that started
    /// together do not send their requests at the same time.
    pub fn jitter(&mut self, duration: Duration) -> Duration {
        let tenth = duration / 10;
        duration - tenth + tenth.mul_f64(2.0 * self.unit())
    }

    /// Returns a uniformly distributed duration from zero to `duration`.
    pub fn up_to(&mut self, duration: Duration) -> Duration {
        duration.mul_f64(self.unit())
    }

    /// Returns a number in `0.0..1.0` from 53 random bits.
    fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

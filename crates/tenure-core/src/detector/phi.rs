//! The accrual detector: a level of suspicion that grows with the silence.

use alloc::collections::VecDeque;
use core::f64::consts::SQRT_2;
use core::time::Duration;

use super::options::MAX_DURATION;
use super::push::Estimator;
use crate::Instant;

/// Assumes that the times between heartbeats are normally distributed, and calculates the
/// probability of the current silence:
///
/// ```text
/// phi = −log10 P(the next heartbeat arrives even later)
/// ```
///
/// So a suspicion at phi 1 is wrong in one of 10 cases, and at phi 8 in one of 10^8, **if** the
/// times are normally distributed. On networks they are not (a lost heartbeat doubles an interval);
/// the option `pause` compensates for that.
///
/// The node is suspected when phi reaches the threshold: after the last heartbeat plus `pause`, the
/// mean and `z` standard deviations, where `z` is the quantile of the normal distribution for the
/// threshold (5.6 for phi 8).
///
/// A heartbeat that ends a suspicion is not sampled: the silence of a failure is not an interval of
/// the link. Before two heartbeats have arrived, the mean is assumed to be the interval, and the
/// deviation a quarter of it.
///
/// - Detection: `delay` + `pause` + mean + `z` × deviation of the samples in the window.
///
/// Source: Hayashibara, Défago, Yared and Katayama, "The φ accrual failure detector", SRDS 2004.
/// The pause, the least deviation and the initial samples are as in Akka's
/// `PhiAccrualFailureDetector`.
#[derive(Clone, Debug)]
pub struct PhiAccrual {
    interval: Duration,
    options: PhiOptions,
    /// The quantile of the standard normal distribution for the threshold.
    z: f64,
    /// Times between heartbeats in nanoseconds.
    window: VecDeque<u128>,
    last: Instant,
    /// Whether `last` is a heartbeat.
    began: bool,
    deadline: Instant,
}

/// The parameters of [`PhiAccrual`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhiOptions {
    /// The level at which a node is suspected, 1 to 100. Default: 8. A higher level means fewer
    /// mistakes and slightly later detection: from 8 to 16, `z` grows from 5.6 to 8.2.
    pub threshold: f64,
    /// The number of intervals for the mean and the deviation, 2 to 10,000. Default: 100.
    pub window: usize,
    /// The least standard deviation. Default: 30 ms, a tenth of the default interval. On a very
    /// regular link, a small delay must not count as a failure.
    pub min_deviation: Duration,
    /// The time added to the mean. Default: 600 ms, which is 2 default intervals, so two heartbeats
    /// in a row may be lost. A longer pause means fewer mistakes, and a detection that is later by
    /// the same time.
    pub pause: Duration,
}

impl PhiAccrual {
    /// The default size of the window.
    pub const WINDOW: usize = 100;

    /// Creates an estimator for heartbeats at this interval.
    #[must_use]
    pub fn new(interval: Duration, options: PhiOptions) -> Self {
        Self {
            interval,
            options,
            z: quantile(options.threshold),
            window: VecDeque::new(),
            last: Instant::default(),
            began: false,
            deadline: Instant::default(),
        }
    }

    /// Returns the level of suspicion at `now`. It is 0.3 at the expected time of the next
    /// heartbeat, and grows from there.
    #[must_use]
    pub fn phi(&self, now: Instant) -> f64 {
        let (mean, deviation) = self.distribution();
        let silence = now.since(self.last).as_nanos() as f64;
        let late = silence - mean - self.options.pause.as_nanos() as f64;
        -libm::log10(survival(late / deviation))
    }

    /// Returns the mean and the standard deviation in nanoseconds.
    fn distribution(&self) -> (f64, f64) {
        let count = self.window.len();
        let sum: u128 = self.window.iter().sum();
        let squares: u128 = self.window.iter().map(|nanos| nanos * nanos).sum();
        // The variance n·Σx² − (Σx)² is calculated in integers, because the rounding errors of
        // floats would exceed the difference.
        let spread = (count as u128 * squares).saturating_sub(sum * sum);
        let deviation = libm::sqrt(spread as f64) / count as f64;
        let least = self.options.min_deviation.as_nanos() as f64;
        (sum as f64 / count as f64, deviation.max(least))
    }

    fn sample(&mut self, time: Duration) {
        if self.window.len() == self.options.window {
            self.window.pop_front();
        }
        // The sum of 10,000 squares of a day in nanoseconds does not overflow a `u128`.
        self.window.push_back(time.min(MAX_DURATION).as_nanos());
    }

    fn set_deadline(&mut self) {
        let (mean, deviation) = self.distribution();
        let silence = Duration::from_nanos((mean + self.z * deviation) as u64);
        self.deadline = self.last + silence + self.options.pause;
    }
}

impl Estimator for PhiAccrual {
    fn begin(&mut self, now: Instant) {
        self.window.clear();
        let quarter = self.interval / 4;
        for assumed in [
            self.interval - quarter,
            self.interval.saturating_add(quarter),
        ] {
            self.sample(assumed);
        }
        (self.last, self.began) = (now + self.interval, false);
        self.set_deadline();
    }

    fn observe(&mut self, now: Instant, _tick: u64) {
        if self.began && now < self.deadline {
            self.sample(now.since(self.last));
        }
        (self.last, self.began) = (now, true);
        self.set_deadline();
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Times between heartbeats differ from the interval by at most the delay. So their deviation
    /// is at most the delay, or the deviation that is assumed at first.
    fn detection_bound(&self, delay: Duration) -> Duration {
        let deviation = delay.max(self.interval / 4).max(self.options.min_deviation);
        delay + self.options.pause + self.interval + delay + deviation.mul_f64(self.z)
    }
}

/// Returns the probability that a standard normal variable exceeds `z`.
fn survival(z: f64) -> f64 {
    0.5 * libm::erfc(z / SQRT_2)
}

/// Returns the `z` that a standard normal variable exceeds with probability 10^−phi, for phi from 1
/// to 100. 60 bisections of the range 0 to 32 reach the precision of an `f64`.
fn quantile(phi: f64) -> f64 {
    let (mut low, mut high) = (0.0, 32.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if -libm::log10(survival(middle)) < phi {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values come from tables of the normal distribution: P(Z > 1.2816) = 10 %, P(Z >
    /// 2.3263) = 1 %, P(Z > 3.0902) = 0.1 %, P(Z > 5.6120) = 10^-8.
    #[test]
    fn the_quantile_matches_tables_of_the_normal_distribution() {
        for (phi, z) in [(1.0, 1.2816), (2.0, 2.3263), (3.0, 3.0902), (8.0, 5.6120)] {
            assert!((quantile(phi) - z).abs() < 1e-4, "{phi}: {}", quantile(phi));
        }
        assert!((8.2..8.3).contains(&quantile(16.0)));
        assert!(quantile(100.0).is_finite() && quantile(100.0) < 32.0);
    }
}

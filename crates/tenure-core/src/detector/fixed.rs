//! A fixed timeout.

use core::time::Duration;

use super::options::{self, MIN_INTERVAL, OptionsError};
use super::push::Estimator;
use crate::Instant;

/// Suspects a node when nothing has come from it for a fixed time: the simplest estimator.
///
/// Its weakness: the time begins when the last heartbeat came, so a slow heartbeat prolongs the
/// detection by its delay.
///
/// - Detection: at most the timeout and the delay of the last heartbeat.
#[derive(Clone, Debug)]
pub struct FixedTimeout {
    interval: Duration,
    timeout: Duration,
    last: Instant,
}

impl Estimator for FixedTimeout {
    /// The timeout: at least the interval and [`MIN_INTERVAL`]. 5 intervals allow for three or four
    /// lost heartbeats in a row.
    type Options = Duration;

    fn new(interval: Duration, timeout: Duration) -> Result<Self, OptionsError> {
        options::duration("heartbeat timeout", timeout)?;
        options::at_least(
            "heartbeat timeout",
            timeout,
            "the heartbeat interval and 10ms, ",
            interval.saturating_add(MIN_INTERVAL),
        )?;
        Ok(Self {
            interval,
            timeout,
            last: Instant::default(),
        })
    }

    fn begin(&mut self, now: Instant) {
        self.last = now + self.interval;
    }

    fn observe(&mut self, now: Instant, _tick: u64) {
        self.last = now;
    }

    fn deadline(&self) -> Instant {
        self.last + self.timeout
    }

    fn detection_bound(&self, delay: Duration) -> Duration {
        self.timeout + delay
    }
}

//! A fixed timeout.

use core::time::Duration;

use super::options::{self, MIN_INTERVAL, OptionsError};
use super::push::Estimator;
use crate::Instant;

/// Suspects a node if no message has come from it for a fixed time: the simplest estimator.
///
/// Its weakness: the time begins at the arrival of the last heartbeat, so a slow heartbeat delays
/// the detection.
///
/// - Detection: at most the timeout plus the delay of the last heartbeat.
#[derive(Clone, Debug)]
pub struct FixedTimeout {
    interval: Duration,
    timeout: Duration,
    last: Instant,
}

impl Estimator for FixedTimeout {
    /// The timeout: at least the interval plus [`MIN_INTERVAL`]. With 5 intervals, three or four
    /// heartbeats in a row may be lost.
    type Options = Duration;

    fn new(interval: Duration, timeout: Duration) -> Result<Self, OptionsError> {
        options::duration("heartbeat timeout", timeout)?;
        let least = interval.saturating_add(MIN_INTERVAL);
        options::ensure(
            timeout >= least,
            format_args!(
                "heartbeat timeout {timeout:?} must be at least the heartbeat interval and 10ms, {least:?}"
            ),
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

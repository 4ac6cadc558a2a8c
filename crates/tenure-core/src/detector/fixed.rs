//! A fixed timeout.

use core::time::Duration;

use super::push::Estimator;
use crate::Instant;

/// Suspects a node if no message has arrived from it for a fixed time. This is the simplest
/// estimator.
///
/// The time begins at the arrival of the last heartbeat, so a slow heartbeat delays the detection.
///
/// - Detection: at most the timeout plus the delay of the last heartbeat.
#[derive(Clone, Debug)]
pub struct FixedTimeout {
    interval: Duration,
    timeout: Duration,
    last: Instant,
}

impl FixedTimeout {
    /// Creates an estimator for heartbeats at this interval. With a timeout of 5 intervals, three
    /// or four heartbeats in a row may be lost.
    #[must_use]
    pub fn new(interval: Duration, timeout: Duration) -> Self {
        Self {
            interval,
            timeout,
            last: Instant::default(),
        }
    }
}

impl Estimator for FixedTimeout {
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

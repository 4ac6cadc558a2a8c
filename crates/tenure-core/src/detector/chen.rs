//! An adaptive deadline: the expected arrival of the next heartbeat plus a margin.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::push::Estimator;
use crate::Instant;
use crate::time::nanos;

/// Estimates the arrival of the next heartbeat from the last ones, and adds a fixed margin.
///
/// If heartbeats `s_i` arrived at `A_i`, the heartbeat with number `l + 1` is expected at
///
/// ```text
/// EA(l+1) = (l+1)·interval + mean of (A_i − s_i·interval) over the window
/// ```
///
/// The node is suspected at `EA(l+1) + alpha`, unless a heartbeat with a number above `l` has
/// arrived. The mean is the offset of the sender's clock plus the usual delay: the estimator need
/// not know either of them, and clocks need not agree. One slow heartbeat hardly changes the mean,
/// so it does not extend the deadline of the next one.
///
/// - Detection: at most interval + `alpha` + the mean delay in the window.
/// - A mistake requires that all heartbeats within a time of `alpha` are lost or late.
///
/// Source: Chen, Toueg and Aguilera, "On the quality of service of failure detectors", IEEE
/// Transactions on Computers 51(5), 2002: their detector NFD-E.
#[derive(Clone, Debug)]
pub struct Chen {
    interval: Duration,
    /// The safety margin between the expected arrival and the deadline. A longer margin means fewer
    /// mistakes, and a detection that is later by the same time.
    alpha: Duration,
    /// The number of heartbeats for the mean. A larger window gives a steadier mean, and adapts
    /// later to a link that has become permanently slower.
    window: usize,
    /// `A_i − s_i·interval` in nanoseconds. Negative if the origin of the sender's clock is before
    /// that of the watcher's clock.
    offsets: VecDeque<i128>,
    deadline: Instant,
}

impl Chen {
    /// The default number of heartbeats for the mean.
    pub const WINDOW: usize = 100;

    /// Creates an estimator for heartbeats at this interval.
    #[must_use]
    pub fn new(interval: Duration, alpha: Duration, window: usize) -> Self {
        Self {
            interval,
            alpha,
            window,
            offsets: VecDeque::new(),
            deadline: Instant::default(),
        }
    }

    /// Returns the expected arrival of heartbeat `tick` in the watcher's time; `None` before the
    /// first heartbeat.
    #[must_use]
    pub fn expected(&self, tick: u64) -> Option<Instant> {
        let count = i128::try_from(self.offsets.len()).ok()?;
        let mean = self.offsets.iter().sum::<i128>().checked_div(count)?;
        let at = mean.saturating_add(self.due(tick)).max(0);
        Some(Instant::from_nanos(u64::try_from(at).unwrap_or(u64::MAX)))
    }

    /// Returns `tick` intervals in nanoseconds. The product of a `u64` and an interval of at most a
    /// day cannot overflow an `i128`.
    fn due(&self, tick: u64) -> i128 {
        i128::from(tick) * i128::from(nanos(self.interval))
    }
}

impl Estimator for Chen {
    fn begin(&mut self, now: Instant) {
        self.offsets.clear();
        self.deadline = now + self.interval + self.alpha;
    }

    fn observe(&mut self, now: Instant, tick: u64) {
        if self.offsets.len() == self.window {
            self.offsets.pop_front();
        }
        let offset = i128::from(now.as_nanos()) - self.due(tick);
        self.offsets.push_back(offset);
        if let Some(expected) = self.expected(tick.saturating_add(1)) {
            self.deadline = expected + self.alpha;
        }
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn detection_bound(&self, delay: Duration) -> Duration {
        self.interval + self.alpha + delay
    }
}

//! An adaptive deadline: when the next heartbeat is expected, and a margin.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::options::{self, OptionsError};
use super::push::Estimator;
use crate::Instant;

/// Expects the next heartbeat from when the last ones came, and adds a fixed margin.
///
/// With heartbeats `s_i` that came at `A_i`, the one numbered `l + 1` is expected at
///
/// ```text
/// EA(l+1) = (l+1)·interval + mean of (A_i − s_i·interval) over the window
/// ```
///
/// and the node is suspected at `EA(l+1) + alpha`, if none numbered above `l` has come. The mean is
/// how far the sender's clock and the usual delay are off: neither has to be known, and clocks need
/// not agree. One slow heartbeat hardly moves it, so it does not prolong the time for the next.
///
/// - Detection: at most interval + `alpha` + the mean delay in the window.
/// - A mistake needs that heartbeats are lost or late for all of `alpha`.
///
/// Source: Chen, Toueg and Aguilera, "On the quality of service of failure detectors", IEEE
/// Transactions on Computers 51(5), 2002: their detector NFD-E.
#[derive(Clone, Debug)]
pub struct Chen {
    interval: Duration,
    options: ChenOptions,
    /// `A_i − s_i·interval` in nanoseconds. Negative when the sender's clock counts from before the
    /// watcher's.
    offsets: VecDeque<i128>,
    sum: i128,
    deadline: Instant,
}

/// The parameters of [`Chen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChenOptions {
    /// The safety margin. Default 1.2 s, 4 of the default intervals: three heartbeats in a row may be
    /// lost. Longer: fewer mistakes, later detection by as much.
    pub alpha: Duration,
    /// Over how many heartbeats the mean is taken. Default 100, 1 to 10,000. More: steadier, and
    /// slower to follow a link that has become slower for good.
    pub window: usize,
}

impl Default for ChenOptions {
    fn default() -> Self {
        Self {
            alpha: Duration::from_millis(1200),
            window: 100,
        }
    }
}

impl Chen {
    /// When heartbeat `tick` is expected, in the watcher's time; `None` before the first one came.
    #[must_use]
    pub fn expected(&self, tick: u64) -> Option<Instant> {
        let count = i128::try_from(self.offsets.len()).ok()?;
        let mean = self.sum.checked_div(count)?;
        let at = mean.saturating_add(self.due(tick)).max(0);
        Some(Instant::from_nanos(u64::try_from(at).unwrap_or(u64::MAX)))
    }

    /// `tick` intervals in nanoseconds. A u64 of intervals of at most a day is far from the end of an
    /// i128.
    fn due(&self, tick: u64) -> i128 {
        i128::from(tick) * i128::from((Instant::default() + self.interval).as_nanos())
    }
}

impl Estimator for Chen {
    type Options = ChenOptions;

    fn new(interval: Duration, options: ChenOptions) -> Result<Self, OptionsError> {
        options::duration("alpha", options.alpha)?;
        options::number("window", options.window as f64, 1.0, 10_000.0)?;
        Ok(Self {
            interval,
            options,
            offsets: VecDeque::new(),
            sum: 0,
            deadline: Instant::default(),
        })
    }

    fn begin(&mut self, now: Instant) {
        self.offsets.clear();
        self.sum = 0;
        self.deadline = now + self.interval + self.options.alpha;
    }

    fn observe(&mut self, now: Instant, tick: u64) {
        if self.offsets.len() == self.options.window {
            self.sum -= self.offsets.pop_front().unwrap_or(0);
        }
        let offset = i128::from(now.as_nanos()) - self.due(tick);
        self.offsets.push_back(offset);
        self.sum += offset;
        if let Some(expected) = self.expected(tick.saturating_add(1)) {
            self.deadline = expected + self.options.alpha;
        }
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn detection_bound(&self, delay: Duration) -> Duration {
        self.interval + self.options.alpha + delay
    }
}

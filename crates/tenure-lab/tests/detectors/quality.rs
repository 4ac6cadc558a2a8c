//! The quality of a failure detector, from a trace of the node's state and the detector's output.
//!
//! The measures are those of Chen, Toueg and Aguilera, "On the quality of service of failure
//! detectors", IEEE Transactions on Computers 51(5), 2002. They concern one watcher and one node
//! and do not depend on the method of detection, so they are comparable for all detectors:
//!
//! - *detection time* T_D: from the crash until the beginning of the suspicion that lasts until the
//!   node is up again. Zero if the node was suspected already.
//! - *mistake*: the detector begins to suspect a node that is up. *Mistake duration* T_M: until the
//!   detector trusts the node again, or until the node crashes.
//! - *mistake rate*: mistakes per time for which the node was up. The paper's *mistake recurrence
//!   time* T_MR is its inverse.
//! - *query accuracy* P_A: the probability that the detector is right when it is asked while the
//!   node is up.
//!
//! The nodes of the paper do not restart. These nodes do, so there is one more measure, the
//! *recovery time*: how long a node that is up again is still suspected. It lowers the query
//! accuracy and is not a mistake.

use std::time::Duration;

use tenure_core::Instant;

/// Collects a trace. The caller reports every change of the node and of the detector, in the order
/// of time.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    at: Instant,
    up: bool,
    /// The time from which the node is suspected.
    suspected: Option<Instant>,
    /// The time of the crash, while the node is down.
    crashed: Option<Instant>,
    /// The kind and the beginning of an error, while the node is up and suspected.
    wrong: Option<(Wrong, Instant)>,
    quality: Quality,
}

#[derive(Clone, Copy, Debug)]
enum Wrong {
    Mistake,
    /// The suspicion was right, and the node is up again.
    LeftOver,
}

/// The measures of one pair of watcher and node, or the sum over many pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quality {
    /// The time for which the node was up.
    pub(crate) up: Duration,
    /// The part of that time in which it was suspected.
    pub(crate) wrong: Duration,
    /// Crashes that were detected before the node was up again or the trace ended.
    pub(crate) detection: Times,
    /// Crashes that were not detected.
    pub(crate) undetected: u64,
    /// Mistakes.
    pub(crate) mistakes: Times,
    /// Suspicions that were right and lasted longer than the crash.
    pub(crate) recovery: Times,
}

/// The number and the duration of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// The number.
    pub(crate) count: u64,
    /// The total duration.
    pub(crate) total: Duration,
    /// The longest duration.
    pub(crate) longest: Duration,
}

impl Times {
    fn add(&mut self, time: Duration) {
        self.count += 1;
        self.total += time;
        self.longest = self.longest.max(time);
    }

    fn add_all(&mut self, other: &Self) {
        self.count += other.count;
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    /// Returns the mean; `None` if it never happened.
    #[must_use]
    pub(crate) fn mean(&self) -> Option<Duration> {
        (self.count > 0).then(|| self.total.div_f64(self.count as f64))
    }
}

impl Quality {
    /// Returns the mistakes per second for which the node was up; zero if it never was.
    #[must_use]
    pub(crate) fn mistake_rate(&self) -> f64 {
        if self.up.is_zero() {
            0.0
        } else {
            self.mistakes.count as f64 / self.up.as_secs_f64()
        }
    }

    /// Returns the part of the time up in which the node was trusted, from 0 to 1; 1 if the node
    /// never was up.
    #[must_use]
    pub(crate) fn query_accuracy(&self) -> f64 {
        if self.up.is_zero() {
            1.0
        } else {
            1.0 - self.wrong.as_secs_f64() / self.up.as_secs_f64()
        }
    }

    /// Adds the measures of another pair of watcher and node.
    pub(crate) fn add(&mut self, other: &Self) {
        self.up += other.up;
        self.wrong += other.wrong;
        self.detection.add_all(&other.detection);
        self.undetected += other.undetected;
        self.mistakes.add_all(&other.mistakes);
        self.recovery.add_all(&other.recovery);
    }
}

impl Meter {
    /// Creates a trace that begins at `now` with a node that is up and trusted.
    #[must_use]
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            at: now,
            up: true,
            suspected: None,
            crashed: None,
            wrong: None,
            quality: Quality::default(),
        }
    }

    /// Records that the node is up or down from `now` on.
    pub(crate) fn set_up(&mut self, now: Instant, up: bool) {
        self.advance(now);
        if up == self.up {
            return;
        }
        self.up = up;
        if up {
            self.end_crash();
            self.wrong = self.suspected.map(|_| (Wrong::LeftOver, now));
        } else {
            self.crashed = Some(now);
            self.end_wrong(now);
        }
    }

    /// Records that the detector suspects or trusts the node from `now` on.
    pub(crate) fn set_suspected(&mut self, now: Instant, suspected: bool) {
        self.advance(now);
        if suspected == self.suspected.is_some() {
            return;
        }
        self.suspected = suspected.then_some(now);
        if !suspected {
            self.end_wrong(now);
        } else if self.up {
            self.wrong = Some((Wrong::Mistake, now));
        }
    }

    /// Returns the measures of a trace that ends at `now`.
    #[must_use]
    pub(crate) fn finish(mut self, now: Instant) -> Quality {
        self.advance(now);
        self.end_crash();
        self.end_wrong(now);
        self.quality
    }

    fn advance(&mut self, now: Instant) {
        let passed = now.since(self.at);
        if self.up {
            self.quality.up += passed;
        }
        if self.wrong.is_some() {
            self.quality.wrong += passed;
        }
        self.at = self.at.max(now);
    }

    /// Ends the crash, because the node is up again or the trace ends.
    fn end_crash(&mut self) {
        match (self.crashed.take(), self.suspected) {
            (Some(crashed), Some(since)) => self.quality.detection.add(since.since(crashed)),
            (Some(_), None) => self.quality.undetected += 1,
            (None, _) => {}
        }
    }

    fn end_wrong(&mut self, now: Instant) {
        match self.wrong.take() {
            Some((Wrong::Mistake, since)) => self.quality.mistakes.add(now.since(since)),
            Some((Wrong::LeftOver, since)) => self.quality.recovery.add(now.since(since)),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::default() + s(secs)
    }

    const fn s(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// The expected values are calculated by hand:
    ///
    /// ```text
    ///            0    10  13        40   44      60    65  70         100
    /// node       up----------------|down---------|up-------------------|
    /// suspected        [---]            [--------------)   [..mistake..|
    /// ```
    #[test]
    fn the_measures_match_a_calculation_by_hand() {
        let mut meter = Meter::new(at(0));
        meter.set_suspected(at(10), true);
        meter.set_suspected(at(13), false);
        meter.set_up(at(40), false);
        meter.set_suspected(at(44), true);
        meter.set_up(at(60), true);
        meter.set_suspected(at(65), false);
        meter.set_suspected(at(70), true);
        let quality = meter.finish(at(100));

        assert_eq!(quality.up, s(80));
        assert_eq!(quality.wrong, s(3 + 5 + 30));
        let (count, total, longest) = (1, s(4), s(4));
        assert_eq!(
            quality.detection,
            Times {
                count,
                total,
                longest
            }
        );
        let (count, total, longest) = (2, s(33), s(30));
        assert_eq!(
            quality.mistakes,
            Times {
                count,
                total,
                longest
            }
        );
        assert_eq!(quality.recovery.mean(), Some(s(5)));
        assert_eq!(quality.undetected, 0);
        assert_eq!(quality.mistake_rate(), 2.0 / 80.0);
        assert_eq!(quality.query_accuracy(), 1.0 - 38.0 / 80.0);
    }
}

//! Which failures of the messages to one member are logged.

use std::time::Duration;

use tenure_core::Instant;

use crate::peers::wire::problem::PeerErrorCode;

/// The reason why a message was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Refused(PeerErrorCode),
    Unreachable,
    NoPath,
    Unauthenticated,
    Nonsense,
}

/// A trouble that goes on is logged again after this time. A member sends several messages a second,
/// and with relays each of them may fail for two reasons in turns: directly and on every path.
const LOG_AGAIN: Duration = Duration::from_secs(60);

/// Limits the log of one link to changes of its state, and to one line in [`LOG_AGAIN`].
#[derive(Debug, Default)]
pub(super) struct TroubleLog {
    /// The kinds that have a line.
    logged: Vec<Trouble>,
    last_line: Option<Instant>,
    /// The number of failures since the last line.
    failures: u64,
    /// Whether the last line is about a failure.
    is_open: bool,
}

impl TroubleLog {
    /// Records a failure. If it needs a line, returns the number of failures since the last line.
    pub(super) fn fail(&mut self, trouble: Trouble, now: Instant) -> Option<u64> {
        self.failures += 1;
        let is_new = !self.logged.contains(&trouble);
        if !is_new && !self.is_due(now) {
            return None;
        }
        if is_new {
            self.logged.push(trouble);
        }
        self.last_line = Some(now);
        self.is_open = true;
        Some(std::mem::take(&mut self.failures))
    }

    /// Records an answer. If the last line is about a failure, returns the number of failures since
    /// then: the recovery needs a line. A link that fails and recovers all the time has no more
    /// lines than one that only fails.
    pub(super) fn succeed(&mut self, now: Instant) -> Option<u64> {
        if self.is_due(now) {
            self.logged.clear();
        }
        std::mem::take(&mut self.is_open).then(|| std::mem::take(&mut self.failures))
    }

    fn is_due(&self, now: Instant) -> bool {
        self.last_line.is_none_or(|last| now >= last + LOG_AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::Trouble::{NoPath, Unreachable};
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::default() + Duration::from_secs(secs)
    }

    #[test]
    fn a_link_that_stays_down_has_a_line_for_each_reason_and_then_one_a_minute() {
        let mut log = TroubleLog::default();
        let mut lines = Vec::new();
        // Two attempts each second, in turns directly and on every path.
        for secs in 0..180 {
            for trouble in [Unreachable, NoPath] {
                if let Some(failures) = log.fail(trouble, at(secs)) {
                    lines.push((secs, trouble, failures));
                }
            }
        }
        let first = [(0, Unreachable, 1), (0, NoPath, 1)];
        let later = [(60, Unreachable, 119), (120, Unreachable, 120)];
        assert_eq!(lines, [first, later].concat());
        assert_eq!(log.succeed(at(180)), Some(119), "the recovery has a line");
        assert_eq!(log.succeed(at(180)), None, "once");
        assert_eq!(log.fail(NoPath, at(181)), Some(1));
    }

    #[test]
    fn a_link_that_fails_and_recovers_all_the_time_has_two_lines_a_minute() {
        let mut log = TroubleLog::default();
        let mut lines = 0;
        for secs in 0..120 {
            lines += usize::from(log.fail(Unreachable, at(secs)).is_some());
            lines += usize::from(log.succeed(at(secs)).is_some());
        }
        assert_eq!(lines, 4);
        // The next line has the failures without one.
        assert_eq!(log.fail(Unreachable, at(120)), Some(60));
    }
}

//! The end of a term, stage by stage: cancel, grace, abort, overrun.

use super::EndReason;
use crate::Instant;
use crate::lease::candidate::Timings;

/// The progress of a term that ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StepDown {
    reason: EndReason,
    cancelled_at: Instant,
    /// When others may lead, if that is known to be before the hard stop.
    ceiling: Option<Instant>,
    aborted_at: Option<Instant>,
    overrun: bool,
}

/// A stage that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Abort,
    Overrun,
}

impl StepDown {
    pub(crate) const fn new(now: Instant, reason: EndReason) -> Self {
        Self {
            reason,
            cancelled_at: now,
            ceiling: None,
            aborted_at: None,
            overrun: false,
        }
    }

    pub(crate) const fn reason(&self) -> EndReason {
        self.reason
    }

    pub(crate) const fn set_ceiling(&mut self, ceiling: Option<Instant>) {
        self.ceiling = ceiling;
    }

    /// When the task is aborted at the latest, if the term must be over by `hard_stop`.
    pub(crate) fn abort_at(&self, timings: &Timings, hard_stop: Instant) -> Instant {
        (self.cancelled_at + timings.stop_grace())
            .min(hard_stop)
            .min(self.ceiling.unwrap_or(hard_stop))
    }

    pub(crate) fn due(&self, timings: &Timings, hard_stop: Instant) -> Option<Instant> {
        match self.aborted_at {
            _ if self.overrun => None,
            Some(aborted_at) => Some(aborted_at + timings.abort_allowance()),
            None => Some(self.abort_at(timings, hard_stop)),
        }
    }

    /// Takes the next stage, if it is due. A stage that is late, because the machine stood still,
    /// is taken at once. An aborted task always gets its allowance before it counts as overrunning.
    pub(crate) fn advance(
        &mut self,
        now: Instant,
        timings: &Timings,
        hard_stop: Instant,
    ) -> Option<Stage> {
        match self.aborted_at {
            None if now >= self.abort_at(timings, hard_stop) => {
                self.aborted_at = Some(now);
                Some(Stage::Abort)
            }
            Some(aborted_at) if !self.overrun && now >= aborted_at + timings.abort_allowance() => {
                self.overrun = true;
                Some(Stage::Overrun)
            }
            _ => None,
        }
    }
}

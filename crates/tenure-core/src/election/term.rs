//! A running term, from its beginning until its task is gone.

use super::output::{Outputs, TermEvent};
use super::{EndReason, Standing};
use crate::lease::candidate::{TICK_INTERVAL, Timings};
use crate::{Epoch, Instant};

/// A running term, for all machines. `P` names the candidate to hand over to.
///
/// The machine sends the renewals. The term calculates how long it is valid without a renewal, and
/// controls the [`StepDown`] of its task. It contains no timings, because a machine has one copy of
/// them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Term<P> {
    pub(crate) epoch: Epoch,
    /// The time at which the last successful renewal was sent. All deadlines count from it.
    renewed: Instant,
    /// The time at which the task last showed progress; at first, the beginning of the term.
    pub(crate) progress: Instant,
    pub(crate) last_tick: Instant,
    /// Whether leadership is gone, so that nothing is left to renew.
    pub(crate) lost: bool,
    ending: Option<StepDown>,
    /// The candidate that the term is handed over to, if the leader named one.
    pub(crate) successor: Option<P>,
}

/// The end of a term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct StepDown {
    reason: EndReason,
    cancelled_at: Instant,
    /// The time at which others may lead, if that is known to be before the hard stop.
    ceiling: Option<Instant>,
    stage: Stage,
}

/// The last stage that the end of a term has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Cancelled,
    Aborted,
    /// The aborted task still runs, and the term is renewed.
    Lingering,
    /// The aborted task still runs, and the term is not renewed.
    Overrun,
}

impl<P> Term<P> {
    /// Creates a term that begins at `now` and was won by a request that was sent at `sent`.
    pub(crate) const fn new(epoch: Epoch, sent: Instant, now: Instant) -> Self {
        Self {
            epoch,
            renewed: sent,
            progress: now,
            last_tick: now,
            lost: false,
            ending: None,
            successor: None,
        }
    }

    pub(crate) const fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    pub(crate) fn reason(&self) -> EndReason {
        let ending = self.ending.as_ref();
        ending.map_or(EndReason::Resigned, |ending| ending.reason)
    }

    /// Returns the time until which no other candidate can lead; `None` once leadership is gone.
    fn valid_until(&self, timings: &Timings) -> Option<Instant> {
        (!self.lost).then(|| self.renewed + timings.renew_deadline())
    }

    /// Returns the time that remains for a renewal.
    pub(crate) fn remaining(&self, now: Instant, timings: &Timings) -> core::time::Duration {
        (self.renewed + timings.renew_deadline()).since(now)
    }

    pub(crate) fn standing(&self, now: Instant, timings: &Timings) -> Standing {
        let epoch = self.epoch;
        match self.valid_until(timings) {
            Some(until) if now < until => Standing::Leading { epoch, until },
            _ => Standing::Ending,
        }
    }

    /// Returns the latest time at which the task is aborted.
    pub(crate) fn abort_at(&self, timings: &Timings) -> Instant {
        let hard_stop = self.renewed + timings.hard_stop();
        let Some(ending) = &self.ending else {
            return hard_stop;
        };
        let grace = ending.cancelled_at + timings.stop_grace();
        grace
            .min(ending.ceiling.unwrap_or(hard_stop))
            .min(hard_stop)
    }

    /// Returns the latest time for the next call of [`Term::tick`].
    pub(crate) fn poll_timeout(&self, timings: &Timings) -> Instant {
        let stage = self.stage_due(timings);
        let due = [self.valid_until(timings), stage, self.progress_due(timings)];
        let tick = self.last_tick + TICK_INTERVAL;
        due.into_iter().flatten().fold(tick, Instant::min)
    }

    /// Returns the time at which work that still runs is an overrun, unless the term is renewed:
    /// the abort allowance after the last moment at which a task may be aborted. Until then no
    /// other candidate can lead, so work that goes on after its abort does no harm.
    pub(crate) fn overrun_at(&self, timings: &Timings) -> Instant {
        let hard_stop = self.renewed + timings.hard_stop();
        let ceiling = self.ending.as_ref().and_then(|ending| ending.ceiling);
        // P7: the hard stop and the ceiling are both a margin before others may lead, by the store's
        // answers to the last renewal and to a break. The allowance is a quarter of the margin, so
        // the overrun comes before that, too. A later break with a shorter period is N12.
        ceiling.unwrap_or(hard_stop).min(hard_stop) + timings.abort_allowance()
    }

    /// Returns the time of the next stage of the step-down. While the term is renewed, no other
    /// candidate can lead, so work that lingers is no overrun.
    fn stage_due(&self, timings: &Timings) -> Option<Instant> {
        let ending = self.ending.as_ref()?;
        match ending.stage {
            Stage::Cancelled => Some(self.abort_at(timings)),
            Stage::Aborted | Stage::Lingering if self.lost => Some(self.overrun_at(timings)),
            Stage::Aborted => Some(self.abort_at(timings) + timings.abort_allowance()),
            Stage::Lingering | Stage::Overrun => None,
        }
    }

    /// Returns the time at which the task counts as hanging unless it shows progress before.
    fn progress_due(&self, timings: &Timings) -> Option<Instant> {
        let deadline = timings.progress_deadline()?;
        (!self.is_ending()).then(|| self.progress + deadline)
    }

    /// Records that the task showed progress at `at`.
    pub(crate) fn handle_progress(&mut self, at: Instant) {
        self.progress = self.progress.max(at);
    }

    /// Returns the sending of the last successful renewal.
    pub(crate) const fn renewed(&self) -> Instant {
        self.renewed
    }

    /// Records the success of a renewal that was sent at `sent`.
    pub(crate) fn renew(&mut self, sent: Instant) {
        self.renewed = self.renewed.max(sent);
    }

    /// Counts the term from `sent`, although a later renewal has succeeded: a voter has taken its
    /// promise back.
    pub(crate) fn count_from(&mut self, sent: Instant) {
        self.renewed = sent;
    }

    /// Ends the term if its time is over, and takes the next stage of its step-down if that is due.
    pub(crate) fn tick<E>(&mut self, now: Instant, timings: &Timings, outputs: &mut Outputs<E>) {
        let gap = now.since(self.last_tick);
        self.last_tick = self.last_tick.max(now);
        if self.valid_until(timings).is_some_and(|until| now >= until) {
            self.lose(now, EndReason::of_lapse(gap), None, timings, outputs);
        }
        if self.progress_due(timings).is_some_and(|due| now >= due) {
            self.resign(now, EndReason::Unhealthy, timings, outputs);
        }
        self.advance(now, timings, outputs);
    }

    /// Begins to end the term for this reason, unless it is ending already.
    ///
    /// The term of an unhealthy task is not renewed any more: a task that hangs may never end, and
    /// its term must not last for ever.
    pub(crate) fn resign<E>(
        &mut self,
        now: Instant,
        reason: EndReason,
        timings: &Timings,
        outputs: &mut Outputs<E>,
    ) {
        if reason == EndReason::Unhealthy && !self.is_ending() {
            self.lose(now, reason, None, timings, outputs);
        } else {
            self.begin_ending(now, reason, outputs);
        }
    }

    /// Begins to end the term in favour of this candidate, unless it is ending already.
    pub(crate) fn hand_over<E>(&mut self, now: Instant, to: P, outputs: &mut Outputs<E>) {
        if !self.is_ending() {
            self.successor = Some(to);
            self.begin_ending(now, EndReason::HandedOver, outputs);
        }
    }

    /// Begins to end the term. Only the first reason counts.
    pub(crate) fn begin_ending<E>(
        &mut self,
        now: Instant,
        reason: EndReason,
        outputs: &mut Outputs<E>,
    ) {
        if !self.is_ending() {
            self.ending = Some(StepDown {
                reason,
                cancelled_at: now,
                ceiling: None,
                stage: Stage::Cancelled,
            });
            outputs.emit(TermEvent::Cancel(reason));
        }
    }

    /// Handles the loss of leadership: renewals stop, and the task must be gone by the hard stop,
    /// or by `ceiling` if that is earlier.
    pub(crate) fn lose<E>(
        &mut self,
        now: Instant,
        reason: EndReason,
        ceiling: Option<Instant>,
        timings: &Timings,
        outputs: &mut Outputs<E>,
    ) {
        self.lost = true;
        self.begin_ending(now, reason, outputs);
        if let Some(ending) = &mut self.ending {
            ending.ceiling = ceiling;
        }
        self.advance(now, timings, outputs);
    }

    /// Takes all stages of the step-down that are due. After a suspension past the last of them,
    /// others may lead already, so an aborted task gets no allowance.
    fn advance<E>(&mut self, now: Instant, timings: &Timings, outputs: &mut Outputs<E>) {
        while self.stage_due(timings).is_some_and(|due| now >= due) {
            let is_lost = self.lost;
            let Some(ending) = &mut self.ending else {
                return;
            };
            let (stage, event) = match ending.stage {
                Stage::Cancelled => (Stage::Aborted, TermEvent::Abort),
                _ if is_lost => (Stage::Overrun, TermEvent::Overrun),
                _ => (Stage::Lingering, TermEvent::Lingering),
            };
            ending.stage = stage;
            outputs.emit(event);
        }
    }
}

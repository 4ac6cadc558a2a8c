//! A running term, from its beginning until its task is gone.

use super::output::{Outputs, TermEvent};
use super::{EndReason, Stage, Standing, StepDown};
use crate::lease::candidate::{TICK_INTERVAL, Timings};
use crate::{Epoch, Instant};

/// A running term, whichever machine has won it. `P` names the candidate to hand over to.
///
/// The machine renews; the term says until when it is valid without a renewal, and takes its task
/// through the [`StepDown`]. It holds no timings, because a machine has one copy of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Term<P> {
    epoch: Epoch,
    /// When the last successful renewal was sent. All deadlines count from here.
    renewed: Instant,
    /// When the task last showed progress; the beginning of the term, before it did.
    progress: Instant,
    last_tick: Instant,
    /// Whether leadership is gone, so that nothing is left to renew.
    lost: bool,
    ending: Option<StepDown>,
    /// The candidate that the term is handed over to, if the leader named one.
    successor: Option<P>,
}

impl<P> Term<P> {
    /// A term that begins at `now`, won by a request that was sent at `sent`.
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

    pub(crate) const fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(crate) const fn is_lost(&self) -> bool {
        self.lost
    }

    pub(crate) const fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    pub(crate) fn reason(&self) -> EndReason {
        self.ending
            .as_ref()
            .map_or(EndReason::Resigned, StepDown::reason)
    }

    pub(crate) const fn take_successor(&mut self) -> Option<P> {
        self.successor.take()
    }

    /// Until when no other candidate can lead; `None` once leadership is gone.
    fn valid_until(&self, timings: &Timings) -> Option<Instant> {
        (!self.lost).then(|| self.renewed + timings.renew_deadline())
    }

    /// How much time is left to renew in.
    pub(crate) fn remaining(&self, now: Instant, timings: &Timings) -> core::time::Duration {
        (self.renewed + timings.renew_deadline()).since(now)
    }

    pub(crate) fn standing(&self, now: Instant, timings: &Timings) -> Standing {
        match self.valid_until(timings) {
            Some(until) if now < until => Standing::Leading {
                epoch: self.epoch,
                until,
            },
            _ => Standing::Ending,
        }
    }

    fn hard_stop(&self, timings: &Timings) -> Instant {
        self.renewed + timings.hard_stop()
    }

    /// When the lease expires for all others, unless it is renewed.
    pub(crate) fn expires(&self, timings: &Timings) -> Instant {
        self.renewed + timings.lease_duration()
    }

    /// When the task is aborted at the latest.
    pub(crate) fn abort_at(&self, timings: &Timings) -> Instant {
        let hard_stop = self.hard_stop(timings);
        let ending = self.ending.as_ref();
        ending.map_or(hard_stop, |ending| ending.abort_at(timings, hard_stop))
    }

    /// When to call [`Term::tick`] at the latest.
    pub(crate) fn poll_timeout(&self, timings: &Timings) -> Instant {
        let hard_stop = self.hard_stop(timings);
        let ending = self.ending.as_ref();
        let stage = ending.and_then(|ending| ending.due(timings, hard_stop));
        let due = [self.valid_until(timings), stage, self.progress_due(timings)];
        let due = due.into_iter().flatten().min();
        let tick = self.last_tick + TICK_INTERVAL;
        due.map_or(tick, |due| due.min(tick))
    }

    /// When the task counts as hanging, if it shows no progress before.
    fn progress_due(&self, timings: &Timings) -> Option<Instant> {
        let deadline = timings.progress_deadline()?;
        self.ending.is_none().then(|| self.progress + deadline)
    }

    /// The task showed progress at `at`.
    pub(crate) fn handle_progress(&mut self, at: Instant) {
        self.progress = self.progress.max(at);
    }

    /// A renewal that was sent at `sent` has succeeded.
    pub(crate) fn renew(&mut self, sent: Instant) {
        self.renewed = self.renewed.max(sent);
    }

    /// Ends the term if its time is over, and takes the next stage of its end if that is due.
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

    /// Begins to end the term for this reason, unless it ends already.
    ///
    /// The term of an unhealthy task is not renewed any more: a task that hangs, and may never end,
    /// must not lead for ever.
    pub(crate) fn resign<E>(
        &mut self,
        now: Instant,
        reason: EndReason,
        timings: &Timings,
        outputs: &mut Outputs<E>,
    ) {
        match reason {
            EndReason::Unhealthy if !self.is_ending() => {
                self.lose(now, reason, None, timings, outputs);
            }
            reason => self.begin_ending(now, reason, outputs),
        }
    }

    /// Begins to end the term in favour of this candidate, unless it ends already.
    pub(crate) fn hand_over<E>(&mut self, now: Instant, to: P, outputs: &mut Outputs<E>) {
        if self.ending.is_none() {
            self.successor = Some(to);
            self.begin_ending(now, EndReason::HandedOver, outputs);
        }
    }

    /// Begins to end the term; the first reason stays.
    pub(crate) fn begin_ending<E>(
        &mut self,
        now: Instant,
        reason: EndReason,
        outputs: &mut Outputs<E>,
    ) {
        if self.ending.is_none() {
            self.ending = Some(StepDown::new(now, reason));
            outputs.emit(TermEvent::Cancel(reason));
        }
    }

    /// Leadership is gone: nothing is renewed any more, and the task must be gone by the hard stop,
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
            ending.set_ceiling(ceiling);
        }
        self.advance(now, timings, outputs);
    }

    /// Takes the next stage of the end, if it is due.
    fn advance<E>(&mut self, now: Instant, timings: &Timings, outputs: &mut Outputs<E>) {
        let hard_stop = self.hard_stop(timings);
        let ending = self.ending.as_mut();
        match ending.and_then(|ending| ending.advance(now, timings, hard_stop)) {
            Some(Stage::Abort) => outputs.emit(TermEvent::Abort),
            Some(Stage::Overrun) => outputs.emit(TermEvent::Overrun),
            None => {}
        }
    }
}

/// Removes the state that a model checker ignores, so that states that differ only in it are equal.
#[cfg(test)]
impl<P> Term<P> {
    pub(crate) fn forget_clock(&mut self) {
        (self.progress, self.last_tick) = Default::default();
    }

    pub(crate) const fn forget_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }
}

//! A term of a member, from when it has won until its task is gone.

use core::time::Duration;

use super::outbox::Outbox;
use super::{NodeId, PeerOutput};
use crate::election::{Stage, StepDown};
use crate::lease::candidate::{EndReason, Timings};
use crate::{Epoch, Instant};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Term {
    pub(super) epoch: Epoch,
    /// When the last renewal was asked for that was granted. Everything counts from here.
    renewed: Instant,
    /// When the task last showed that it gets on; `None` until it has once.
    pub(super) progress: Option<Instant>,
    /// Whether leadership is gone, so that nothing is left to renew.
    lost: bool,
    ending: Option<StepDown>,
    /// Whom it is handed over to, if not just to the best one.
    pub(super) successor: Option<NodeId>,
}

impl Term {
    pub(super) const fn new(epoch: Epoch, asked: Instant) -> Self {
        Self {
            epoch,
            renewed: asked,
            progress: None,
            lost: false,
            ending: None,
            successor: None,
        }
    }

    pub(super) const fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) const fn is_lost(&self) -> bool {
        self.lost
    }

    pub(super) const fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    pub(super) fn reason(&self) -> EndReason {
        self.ending
            .as_ref()
            .map_or(EndReason::Resigned, StepDown::reason)
    }

    /// Until when nobody else can lead, for sure; `None` once leadership is gone.
    pub(super) fn valid_until(&self, timings: &Timings) -> Option<Instant> {
        (!self.lost).then(|| self.renewed + timings.renew_deadline())
    }

    fn hard_stop(&self, timings: &Timings) -> Instant {
        self.renewed + timings.hard_stop()
    }

    /// When the task is aborted at the latest.
    pub(super) fn abort_at(&self, timings: &Timings) -> Instant {
        let hard_stop = self.hard_stop(timings);
        let ending = self.ending.as_ref();
        ending.map_or(hard_stop, |ending| ending.abort_at(timings, hard_stop))
    }

    pub(super) fn due(&self, timings: &Timings) -> Option<Instant> {
        let hard_stop = self.hard_stop(timings);
        let ending = self.ending.as_ref();
        let step = ending.and_then(|ending| ending.due(timings, hard_stop));
        [self.valid_until(timings), step, self.progress_due(timings)]
            .into_iter()
            .flatten()
            .min()
    }

    /// When the task counts as hanging, if it shows no progress before.
    fn progress_due(&self, timings: &Timings) -> Option<Instant> {
        let due = self.progress? + timings.progress_deadline()?;
        self.ending.is_none().then_some(due)
    }

    pub(super) fn renew(&mut self, asked: Instant) {
        self.renewed = self.renewed.max(asked);
    }

    /// Begins to end the term; the first reason stays.
    pub(super) fn begin_ending(&mut self, now: Instant, reason: EndReason, outbox: &mut Outbox) {
        if self.ending.is_none() {
            self.ending = Some(StepDown::new(now, reason));
            outbox.push(PeerOutput::Cancel(reason));
        }
    }

    pub(super) fn lose(
        &mut self,
        now: Instant,
        reason: EndReason,
        ceiling: Option<Instant>,
        outbox: &mut Outbox,
    ) {
        self.lost = true;
        self.begin_ending(now, reason, outbox);
        if let Some(ending) = &mut self.ending {
            ending.set_ceiling(ceiling);
        }
    }

    /// Ends the term if time has, and takes the next step of its end if that is due.
    pub(super) fn look(
        &mut self,
        now: Instant,
        gap: Duration,
        timings: &Timings,
        outbox: &mut Outbox,
    ) {
        if self.valid_until(timings).is_some_and(|until| now >= until) {
            let reason = EndReason::of_lapse(gap);
            self.lose(now, reason, None, outbox);
        }
        // Nobody renews for a task that may never end.
        if self.progress_due(timings).is_some_and(|due| now >= due) {
            self.lose(now, EndReason::Unhealthy, None, outbox);
        }
        self.climb(now, timings, outbox);
    }

    pub(super) fn climb(&mut self, now: Instant, timings: &Timings, outbox: &mut Outbox) {
        let hard_stop = self.hard_stop(timings);
        let rung = self.ending.as_mut();
        match rung.and_then(|ending| ending.climb(now, timings, hard_stop)) {
            Some(Stage::Abort) => outbox.push(PeerOutput::Abort),
            Some(Stage::Overrun) => outbox.push(PeerOutput::Overrun),
            None => {}
        }
    }
}

//! A term, from the grant until its task is gone, and the release after it.

use alloc::format;
use core::time::Duration;

use super::Timings;
use super::campaign::retry_delay;
use super::machine::{Next, Pending, Wire};
use super::message::{Answer, EndReason, LeaseOutput, Request, TaskEnd};
use crate::election::{Stage, StepDown};
use crate::lease::LeaseId;
use crate::{CandidateId, Epoch, Instant, Random};

use super::release::Release;

/// Shortest time that an attempt gets: a healthy store on another continent answers within it.
pub(super) const MIN_ATTEMPT: Duration = Duration::from_millis(100);

/// A term.
#[derive(Debug)]
pub(super) struct Term {
    lease_id: LeaseId,
    epoch: Epoch,
    /// When the last successful request was sent. Everything counts from here.
    renewed: Instant,
    pending: Pending,
    failures: u32,
    /// Whether the lease is gone, so that nothing is left to renew.
    lost: bool,
    ending: Option<StepDown>,
    /// When the task last showed that it gets on; the term's beginning, before it did.
    progress: Instant,
    /// Whom the lease is handed over to, if not just to the next one.
    successor: Option<CandidateId>,
}

impl Term {
    pub(super) fn new(
        lease_id: LeaseId,
        epoch: Epoch,
        (sent, now): (Instant, Instant),
        timings: &Timings,
        random: &mut dyn Random,
    ) -> Self {
        Self {
            lease_id,
            epoch,
            renewed: sent,
            pending: Pending::At(sent + random.jitter(timings.renew_interval())),
            failures: 0,
            lost: false,
            ending: None,
            progress: now,
            successor: None,
        }
    }

    pub(super) const fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) const fn lease_id(&self) -> LeaseId {
        self.lease_id
    }

    /// Until when nobody else can have been granted, for sure; `None` once the lease is gone.
    pub(super) fn valid_until(&self, timings: &Timings) -> Option<Instant> {
        (!self.lost).then(|| self.renewed + timings.renew_deadline())
    }

    /// When the task is aborted at the latest.
    pub(super) fn abort_at(&self, timings: &Timings) -> Instant {
        let hard_stop = self.renewed + timings.hard_stop();
        match &self.ending {
            None => hard_stop,
            Some(ending) => ending.abort_at(timings, hard_stop),
        }
    }

    pub(super) fn due(&self, timings: &Timings) -> Option<Instant> {
        let renewal = self.pending.due().filter(|_| !self.lost);
        let hard_stop = self.renewed + timings.hard_stop();
        let ending = self.ending.as_ref();
        let step = ending.and_then(|ending| ending.due(timings, hard_stop));
        let progress = self.progress_due(timings);
        [renewal, self.valid_until(timings), step, progress]
            .into_iter()
            .flatten()
            .min()
    }

    /// When the task counts as hanging, if it shows no progress before.
    fn progress_due(&self, timings: &Timings) -> Option<Instant> {
        let deadline = timings.progress_deadline()?;
        self.ending.is_none().then(|| self.progress + deadline)
    }

    /// The task gets on.
    pub(super) fn show_progress(&mut self, now: Instant) {
        self.progress = self.progress.max(now);
    }

    /// The task does not get on, or is not well. Nobody renews for it any more: a task that hangs,
    /// and may never end, must not lead for ever.
    pub(super) fn give_up_on_task(&mut self, now: Instant, wire: &mut Wire) {
        if self.ending.is_none() {
            self.lose(now, EndReason::Unhealthy, None, wire);
        }
    }

    /// Begins to end the term for the good of this candidate.
    pub(super) fn hand_over(&mut self, now: Instant, to: CandidateId, wire: &mut Wire) {
        if self.ending.is_none() {
            self.successor = Some(to);
            self.begin_ending(now, EndReason::HandedOver, wire);
        }
    }

    /// Sends the next renewal now, if it is due soon anyway.
    pub(super) fn renew_early(&mut self, now: Instant, timings: &Timings, wire: &mut Wire) {
        let soon = now + timings.renew_interval() / 4;
        if !self.lost && self.pending.due().is_some_and(|due| due <= soon) {
            self.renew(now, timings, wire);
        }
    }

    fn renew(&mut self, now: Instant, timings: &Timings, wire: &mut Wire) {
        // A third of what is left, so that a lost attempt leaves time for two more.
        let left = (self.renewed + timings.renew_deadline()).since(now);
        let timeout = (left / 3).max(MIN_ATTEMPT).min(timings.renew_interval());
        self.pending = wire.send(now, Request::Renew(self.lease_id), timeout);
    }

    /// Begins to end the term; the first reason stays.
    pub(super) fn begin_ending(&mut self, now: Instant, reason: EndReason, wire: &mut Wire) {
        if self.ending.is_none() {
            self.ending = Some(StepDown::new(now, reason));
            wire.push(LeaseOutput::Cancel(reason));
        }
    }

    /// The lease is gone: nothing is renewed any more, and the task must be gone by the hard stop,
    /// or by `ceiling` where that is earlier.
    fn lose(&mut self, now: Instant, reason: EndReason, ceiling: Option<Instant>, wire: &mut Wire) {
        self.lost = true;
        self.begin_ending(now, reason, wire);
        if let Some(ending) = &mut self.ending {
            ending.set_ceiling(ceiling);
        }
    }

    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        gap: Duration,
        timings: &Timings,
        wire: &mut Wire,
    ) {
        if self.valid_until(timings).is_some_and(|until| now >= until) {
            let reason = EndReason::of_lapse(gap);
            self.lose(now, reason, None, wire);
        }
        if self.progress_due(timings).is_some_and(|due| now >= due) {
            self.give_up_on_task(now, wire);
        }
        self.climb(now, timings, wire);
        if !self.lost && self.pending.due().is_some_and(|due| now >= due) {
            self.renew(now, timings, wire);
        }
    }

    /// The next step of the ladder, if it is due.
    fn climb(&mut self, now: Instant, timings: &Timings, wire: &mut Wire) {
        let hard_stop = self.renewed + timings.hard_stop();
        let rung = self.ending.as_mut();
        match rung.and_then(|ending| ending.climb(now, timings, hard_stop)) {
            Some(Stage::Abort) => wire.push(LeaseOutput::Abort),
            Some(Stage::Overrun) => wire.push(LeaseOutput::Overrun),
            None => {}
        }
    }

    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        attempt: u64,
        answer: Answer,
        timings: &Timings,
        wire: &mut Wire,
        random: &mut dyn Random,
    ) {
        let Some(sent) = self.pending.answered(attempt).filter(|_| !self.lost) else {
            return;
        };
        match answer {
            Answer::Held(epoch) if epoch == self.epoch => {
                if self.failures > 0 {
                    wire.push(LeaseOutput::AtRisk(false));
                }
                self.failures = 0;
                self.renewed = self.renewed.max(sent);
                self.pending = Pending::At(sent + random.jitter(timings.renew_interval()));
            }
            Answer::Broken { remaining } => {
                // The store will let others lead `remaining` after it answered, which was after the
                // request was sent. The margin is kept here too.
                let ceiling = Some(sent + remaining.saturating_sub(timings.margin()));
                self.lose(now, EndReason::Broken, ceiling, wire);
                self.climb(now, timings, wire);
            }
            // Somebody else may lead already, so there is no time left to give the task.
            Answer::Expired
            | Answer::Superseded
            | Answer::IdRetired
            | Answer::HeldByAnother { .. }
            | Answer::Held(_) => {
                self.lose(now, EndReason::Superseded, Some(now), wire);
                self.climb(now, timings, wire);
            }
            Answer::Unknown(why) | Answer::Refused(why) => {
                if self.failures == 0 {
                    wire.push(LeaseOutput::AtRisk(true));
                }
                self.failures += 1;
                let delay = retry_delay(self.failures, timings, random);
                self.pending = Pending::At(now + delay);
                wire.push(LeaseOutput::Retrying(format!(
                    "renew: {why}; trying again in {delay:.1?}"
                )));
            }
            Answer::Released => {
                wire.push(LeaseOutput::Retrying("renew: answered as a release".into()));
                self.pending = Pending::At(now + retry_delay(1, timings, random));
            }
        }
    }

    /// The task is gone, so others may be let in: release, unless there is nothing left to release.
    pub(super) fn task_ended(
        &mut self,
        now: Instant,
        end: TaskEnd,
        timings: &Timings,
        wire: &mut Wire,
    ) -> Next {
        self.begin_ending(now, EndReason::of_task(end), wire);
        let reason = self.reason();
        // A lease that is breaking is still this one's to give up, and need not run out.
        if reason == EndReason::Superseded || now >= self.renewed + timings.lease_duration() {
            return Next::Ended(self.epoch, reason);
        }
        let successor = self.successor.take().filter(|_| !self.lost);
        let term = (self.epoch, reason);
        Next::Release(Release::of_term(
            self.lease_id,
            term,
            successor,
            now,
            timings,
        ))
    }

    fn reason(&self) -> EndReason {
        self.ending
            .as_ref()
            .map_or(EndReason::Resigned, StepDown::reason)
    }
}

//! A term under a lease: a running term, and the renewals that keep it.

use alloc::format;
use core::time::Duration;

use super::Timings;
use super::campaign::retry_delay;
use super::machine::{Next, Outbox, Pending};
use super::message::{Answer, LeaseEffect, Request};
use super::release::Release;
use crate::election::{EndReason, Standing, TaskEnd, Term, TermEvent};
use crate::lease::LeaseId;
use crate::{CandidateId, Epoch, Instant, Random};

/// Shortest time that an attempt gets: a healthy store on another continent answers within it.
pub(super) const MIN_ATTEMPT: Duration = Duration::from_millis(100);

/// A term under a lease.
#[derive(Debug)]
pub(super) struct LeaseTerm {
    term: Term<CandidateId>,
    lease_id: LeaseId,
    pending: Pending,
    failures: u32,
}

impl LeaseTerm {
    /// A term that begins at `now`, by an acquire that was sent at `sent`.
    pub(super) fn new(
        lease_id: LeaseId,
        epoch: Epoch,
        (sent, now): (Instant, Instant),
        timings: &Timings,
        random: &mut dyn Random,
    ) -> Self {
        Self {
            term: Term::new(epoch, sent, now),
            lease_id,
            pending: Pending::At(sent + random.jitter(timings.renew_interval())),
            failures: 0,
        }
    }

    pub(super) const fn epoch(&self) -> Epoch {
        self.term.epoch()
    }

    pub(super) const fn lease_id(&self) -> LeaseId {
        self.lease_id
    }

    pub(super) fn standing(&self, now: Instant, timings: &Timings) -> Standing {
        self.term.standing(now, timings)
    }

    pub(super) fn abort_at(&self, timings: &Timings) -> Instant {
        self.term.abort_at(timings)
    }

    pub(super) fn poll_timeout(&self, timings: &Timings) -> Instant {
        let due = self.term.poll_timeout(timings);
        self.renewal_due().map_or(due, |renewal| renewal.min(due))
    }

    /// When the next renewal is due; `None` while one is in flight, and once the lease is gone.
    fn renewal_due(&self) -> Option<Instant> {
        self.pending.due().filter(|_| !self.term.is_lost())
    }

    pub(super) fn handle_progress(&mut self, at: Instant) {
        self.term.handle_progress(at);
    }

    pub(super) fn resign(
        &mut self,
        now: Instant,
        reason: EndReason,
        timings: &Timings,
        outbox: &mut Outbox,
    ) {
        self.term.resign(now, reason, timings, &mut outbox.outputs);
    }

    pub(super) fn hand_over(&mut self, now: Instant, to: CandidateId, outbox: &mut Outbox) {
        self.term.hand_over(now, to, &mut outbox.outputs);
    }

    /// Sends the next renewal now, if it is due soon anyway.
    pub(super) fn renew_early(&mut self, now: Instant, timings: &Timings, outbox: &mut Outbox) {
        let soon = now + timings.renew_interval() / 4;
        if self.renewal_due().is_some_and(|due| due <= soon) {
            self.renew(now, timings, outbox);
        }
    }

    fn renew(&mut self, now: Instant, timings: &Timings, outbox: &mut Outbox) {
        // A third of the time that is left, so that a lost attempt leaves time for two more.
        let timeout = (self.term.remaining(now, timings) / 3)
            .max(MIN_ATTEMPT)
            .min(timings.renew_interval());
        self.pending = outbox.send(now, Request::Renew(self.lease_id), timeout);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, timings: &Timings, outbox: &mut Outbox) {
        self.term.tick(now, timings, &mut outbox.outputs);
        if self.renewal_due().is_some_and(|due| now >= due) {
            self.renew(now, timings, outbox);
        }
    }

    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        attempt: u64,
        answer: Answer,
        timings: &Timings,
        outbox: &mut Outbox,
        random: &mut dyn Random,
    ) {
        let is_lost = self.term.is_lost();
        let Some(sent) = self.pending.answered(attempt).filter(|_| !is_lost) else {
            return;
        };
        match answer {
            Answer::Held(epoch) if epoch == self.epoch() => {
                if self.failures > 0 {
                    outbox.emit(TermEvent::AtRisk(false));
                }
                self.failures = 0;
                self.term.renew(sent);
                self.pending = Pending::At(sent + random.jitter(timings.renew_interval()));
            }
            Answer::Broken { remaining } => {
                // The store lets others lead `remaining` after it answered, and it answered after the
                // request was sent. The margin is kept here too.
                let ceiling = Some(sent + remaining.saturating_sub(timings.margin()));
                let outputs = &mut outbox.outputs;
                self.term
                    .lose(now, EndReason::Broken, ceiling, timings, outputs);
            }
            // Another candidate may lead already, so the task gets no time.
            Answer::Expired
            | Answer::Superseded
            | Answer::IdRetired
            | Answer::HeldByAnother { .. }
            | Answer::Held(_) => {
                let outputs = &mut outbox.outputs;
                self.term
                    .lose(now, EndReason::Superseded, Some(now), timings, outputs);
            }
            Answer::Unknown(why) | Answer::Refused(why) | Answer::Denied(why) => {
                if self.failures == 0 {
                    outbox.emit(TermEvent::AtRisk(true));
                }
                self.failures += 1;
                let delay = retry_delay(self.failures, timings, random);
                self.pending = Pending::At(now + delay);
                outbox.effect(LeaseEffect::Retrying(format!(
                    "renew: {why}; trying again in {delay:.1?}"
                )));
            }
            Answer::Released => {
                outbox.effect(LeaseEffect::Retrying("renew: answered as a release".into()));
                self.pending = Pending::At(now + retry_delay(1, timings, random));
            }
        }
    }

    /// The task is gone, so others may lead: release the lease, unless nothing is left to release.
    pub(super) fn task_ended(
        &mut self,
        now: Instant,
        end: TaskEnd,
        timings: &Timings,
        outbox: &mut Outbox,
    ) -> Next {
        self.term
            .begin_ending(now, EndReason::of_task(end), &mut outbox.outputs);
        let (epoch, reason) = (self.epoch(), self.term.reason());
        // The holder may still give up a lease that is breaking, so that it need not run out.
        if reason == EndReason::Superseded || now >= self.term.expires(timings) {
            return Next::Ended(epoch, reason);
        }
        let is_lost = self.term.is_lost();
        let successor = self.term.take_successor().filter(|_| !is_lost);
        Next::Release(Release::of_term(
            self.lease_id,
            (epoch, reason),
            successor,
            now,
            timings,
        ))
    }
}

//! A term under a lease: the running term and its renewals.

use alloc::format;
use core::time::Duration;

use super::Timings;
use super::campaign::{retry_delay, retry_delay_within};
use super::machine::{Context, Next, Pending};
use super::message::{Answer, LeaseEffect, Request};
use super::release::Release;
use crate::election::{EndReason, TaskEnd, Term, TermEvent};
use crate::lease::LeaseId;
use crate::{CandidateId, Epoch, Instant};

/// The shortest timeout of an attempt. A healthy store on another continent answers within it.
pub(super) const MIN_ATTEMPT: Duration = Duration::from_millis(100);

/// A term under a lease.
#[derive(Debug)]
pub(super) struct LeaseTerm {
    pub(super) term: Term<CandidateId>,
    pub(super) lease_id: LeaseId,
    /// The renewal.
    pub(super) pending: Pending,
    failures: u32,
    /// The look at the lease before the next renewal; `None` if only the store changes the lease.
    /// A renewal does not wait for it: it replaces a look in flight, whose answer no longer counts,
    /// because the lease may have changed since.
    look: Option<Pending>,
}

impl LeaseTerm {
    /// Creates a term that begins now. Its acquire was sent at `sent`.
    pub(super) fn new(
        cx: &mut Context<'_>,
        lease_id: LeaseId,
        epoch: Epoch,
        sent: Instant,
    ) -> Self {
        Self {
            term: Term::new(epoch, sent, cx.now),
            lease_id,
            pending: next_renewal(cx, sent),
            failures: 0,
            look: None,
        }
    }

    pub(super) fn poll_timeout(&self, timings: &Timings) -> Instant {
        let due = [self.renewal_due(), self.look_due()];
        let due = due.into_iter().flatten();
        due.fold(self.term.poll_timeout(timings), Instant::min)
    }

    /// Returns the sending of the request that the term counts from.
    pub(super) const fn sent(&self) -> Instant {
        self.term.renewed()
    }

    /// Returns the time of the next renewal; `None` while one is in flight, and after the lease is
    /// lost.
    fn renewal_due(&self) -> Option<Instant> {
        self.pending.due().filter(|_| !self.term.lost)
    }

    /// Returns the time of the next look; `None` unless the term waits for its next renewal.
    fn look_due(&self) -> Option<Instant> {
        self.renewal_due().filter(|_| self.failures == 0)?;
        self.look?.due()
    }

    /// Plans the next look, as often as a waiting candidate polls.
    pub(super) fn look_later(&mut self, cx: &mut Context<'_>) {
        let pause = cx.random.jitter(cx.timings.poll_interval());
        self.look = Some(Pending::At(cx.now + pause));
    }

    fn look(&mut self, cx: &mut Context<'_>) {
        let timeout = cx.timings.poll_interval().max(MIN_ATTEMPT);
        self.look = Some(cx.send(Request::Look(self.lease_id), timeout));
    }

    /// Sends the next renewal now if it is due soon.
    pub(super) fn renew_early(&mut self, cx: &mut Context<'_>) {
        let soon = cx.now + cx.timings.renew_interval() / 4;
        if self.renewal_due().is_some_and(|due| due <= soon) {
            self.renew(cx);
        }
    }

    fn renew(&mut self, cx: &mut Context<'_>) {
        // A third of the remaining time, so that a lost attempt leaves time for two more.
        let timeout = (self.term.remaining(cx.now, cx.timings) / 3)
            .max(MIN_ATTEMPT)
            .min(cx.timings.renew_interval());
        self.look = self.look.map(|_| Pending::At(cx.now));
        self.pending = cx.send(Request::Renew(self.lease_id), timeout);
    }

    pub(super) fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        self.term.tick(cx.now, cx.timings, cx.outputs);
        if self.renewal_due().is_some_and(|due| cx.now >= due) {
            self.renew(cx);
        } else if self.look_due().is_some_and(|due| cx.now >= due) {
            self.look(cx);
        }
    }

    pub(super) fn handle_answer(&mut self, cx: &mut Context<'_>, attempt: u64, answer: Answer) {
        let is_lost = self.term.lost;
        let look = self.look.and_then(|look| look.answered(attempt));
        if look.is_some() && !is_lost {
            return self.handle_look(cx, answer);
        }
        let Some(sent) = self.pending.answered(attempt).filter(|_| !is_lost) else {
            return;
        };
        match answer {
            Answer::Held(epoch) if epoch == self.term.epoch => {
                if self.failures > 0 {
                    cx.outputs.emit(TermEvent::AtRisk(false));
                }
                self.failures = 0;
                self.term.renew(sent);
                self.wait_for(next_renewal(cx, sent), cx);
            }
            Answer::Broken { remaining } => {
                // The store lets others lead `remaining` after its answer, and it answered after
                // the request was sent. The margin applies here too.
                let ceiling = sent + remaining.saturating_sub(cx.timings.margin());
                self.lose(cx, EndReason::Broken, ceiling);
            }
            // Another candidate may lead already, so the task gets no stop grace.
            Answer::Expired
            | Answer::Superseded
            | Answer::IdRetired
            | Answer::HeldByAnother(_)
            | Answer::Held(_) => self.lose(cx, EndReason::Superseded, cx.now),
            Answer::Unknown(why) | Answer::Refused(why) | Answer::Denied(why) => {
                if self.failures == 0 {
                    cx.outputs.emit(TermEvent::AtRisk(true));
                }
                self.failures += 1;
                let left = self.term.remaining(cx.now, cx.timings);
                let delay = retry_delay_within(left, self.failures, cx);
                self.pending = Pending::At(cx.now + delay);
                let why = format!("renew: {why}");
                cx.outputs.effect(LeaseEffect::Retrying(why, Some(delay)));
            }
            Answer::Released => {
                let delay = retry_delay(1, cx.timings.renew_interval(), cx);
                let why = "renew: answered as a release".into();
                cx.outputs.effect(LeaseEffect::Retrying(why, Some(delay)));
                self.wait_for(Pending::At(cx.now + delay), cx);
            }
        }
    }

    /// Waits for the next renewal, and looks at the lease meanwhile.
    fn wait_for(&mut self, renewal: Pending, cx: &mut Context<'_>) {
        self.pending = renewal;
        if self.look.is_some() {
            self.look_later(cx);
        }
    }

    fn handle_look(&mut self, cx: &mut Context<'_>, answer: Answer) {
        match answer {
            Answer::Held(epoch) if epoch == self.term.epoch => self.look_later(cx),
            // The renewal counts from its own sending, so it extends the term as any other one. If
            // answers are late, it is the last write that counts for others: the earlier it is, the
            // earlier the next leader begins.
            Answer::Released => self.renew(cx),
            Answer::Unknown(why) | Answer::Refused(why) | Answer::Denied(why) => {
                let why = format!("look: {why}");
                cx.outputs.effect(LeaseEffect::Retrying(why, None));
                self.look_later(cx);
            }
            Answer::Broken { .. }
            | Answer::Expired
            | Answer::Superseded
            | Answer::IdRetired
            | Answer::HeldByAnother(_)
            | Answer::Held(_) => self.lose(cx, EndReason::Superseded, cx.now),
        }
    }

    fn lose(&mut self, cx: &mut Context<'_>, reason: EndReason, ceiling: Instant) {
        let (timings, outputs) = (cx.timings, &mut *cx.outputs);
        self.term
            .lose(cx.now, reason, Some(ceiling), timings, outputs);
    }

    /// Releases the lease after the task has ended, so that others may lead, unless another
    /// candidate holds it. A lease whose duration has passed is released, too: the store may have
    /// prolonged it when it restarted.
    pub(super) fn task_ended(&mut self, cx: &mut Context<'_>, end: TaskEnd) -> Next {
        let reason = EndReason::of_task(end);
        self.term.begin_ending(cx.now, reason, cx.outputs);
        let (epoch, reason) = (self.term.epoch, self.term.reason());
        // The holder may release a lease that is breaking, so that others need not wait for its
        // end.
        if reason == EndReason::Superseded {
            return Next::Ended(epoch, reason);
        }
        let is_lost = self.term.lost;
        let release = Release {
            successor: self.term.successor.take().filter(|_| !is_lost),
            ..Release::of_term(cx, self.lease_id, reason)
        };
        Next::Release(release, epoch, reason)
    }
}

pub(super) fn next_renewal(cx: &mut Context<'_>, sent: Instant) -> Pending {
    Pending::At(sent + cx.random.jitter(cx.timings.renew_interval()))
}

//! Releasing a lease.

use alloc::format;
use core::time::Duration;

use super::campaign::retry_delay;
use super::machine::{Context, Next, Pending};
use super::message::{Answer, LeaseEffect, Request};
use super::term::MIN_ATTEMPT;
use crate::election::EndReason;
use crate::lease::LeaseId;
use crate::{CandidateId, Epoch, Instant};

/// The longest reservation for a successor: the limit of a store by default.
const MOST_WITHIN: Duration = Duration::from_secs(10 * 60);

/// The release of a lease that no task uses any more. It only saves time for the next candidate: if
/// the release fails, the lease expires.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Release {
    pub(super) lease_id: LeaseId,
    /// The term that ends with the release; `None` for a campaign that was given up.
    pub(super) term: Option<(Epoch, EndReason)>,
    pub(super) pending: Pending,
    pub(super) failures: u32,
    pub(super) give_up_at: Instant,
    pub(super) successor: Option<CandidateId>,
    /// The time until which an acquire that was given up may still reach the store, if the release
    /// finds that the id holds nothing.
    pub(super) stray_until: Option<Instant>,
}

impl Release {
    pub(super) fn new(
        cx: &Context<'_>,
        lease_id: LeaseId,
        term: Option<(Epoch, EndReason)>,
    ) -> Self {
        let interval = cx.timings.renew_interval();
        let limit = match term {
            // A process that shuts down waits for the release, so the limit is shorter than the
            // rest of the lease.
            Some(_) => interval,
            // The limit allows for one failed attempt and a second one.
            None => (interval / 5).max(2 * MIN_ATTEMPT),
        };
        Self {
            lease_id,
            term,
            pending: Pending::At(cx.now),
            failures: 0,
            give_up_at: cx.now + limit,
            successor: None,
            stray_until: None,
        }
    }

    pub(super) fn due(&self) -> Instant {
        let due = self.pending.due().unwrap_or(self.give_up_at);
        due.min(self.give_up_at)
    }

    pub(super) fn handle_timeout(&mut self, cx: &mut Context<'_>) -> Next {
        if cx.now >= self.give_up_at {
            return self.finish();
        }
        if self.pending.due().is_some_and(|due| cx.now >= due) {
            let timeout = (cx.timings.renew_interval() / 3).max(MIN_ATTEMPT);
            let lease_id = self.lease_id;
            let request = match &self.successor {
                None => Request::Release {
                    lease_id,
                    reason: self.reason(),
                },
                Some(to) => Request::HandOver {
                    lease_id,
                    to: to.clone(),
                    // The successor waits in the store.
                    within: cx.timings.lease_duration().min(MOST_WITHIN),
                },
            };
            self.pending = cx.send(request, timeout);
        }
        Next::Stay
    }

    pub(super) fn handle_answer(
        &mut self,
        cx: &mut Context<'_>,
        attempt: u64,
        answer: &Answer,
    ) -> Next {
        if self.pending.answered(attempt).is_none() {
            return Next::Stay;
        }
        if let Answer::Unknown(_) = answer {
            self.failures += 1;
            self.pending = Pending::At(cx.now + retry_delay(self.failures, cx));
            return Next::Stay;
        }
        // The successor does not wait, or the service refuses the hand-over for another reason. The
        // task has ended, so the lease goes to the next candidate.
        if let (Some(to), Answer::Refused(why)) = (&self.successor, answer) {
            cx.outputs.effect(LeaseEffect::Retrying(format!(
                "hand over to {to}: {why}; the lease is released instead"
            )));
            self.successor = None;
            self.pending = Pending::At(cx.now);
            return Next::Stay;
        }
        // Requests on several connections may overtake each other. If the acquire arrived after
        // this release, the store would grant the lease and no task would use it. After a release
        // that succeeded, the id is retired and can't be granted any more.
        let stray = self.stray_until.take_if(|until| cx.now < *until);
        if let (Some(until), false) = (stray, *answer == Answer::Released) {
            self.pending = Pending::At(until);
            return Next::Stay;
        }
        // The lease is released, or this id no longer holds it.
        self.finish()
    }

    /// Returns the reason for the store's history. The store itself knows that and why the lease
    /// was broken.
    fn reason(&self) -> Option<EndReason> {
        let (_, reason) = self.term?;
        (reason != EndReason::Broken).then_some(reason)
    }

    const fn finish(&self) -> Next {
        match self.term {
            Some((epoch, reason)) => Next::Ended(epoch, reason),
            None => Next::Withdrawn,
        }
    }
}

//! Releasing a lease.

use super::Timings;
use super::campaign::retry_delay;
use super::machine::{Next, Outbox, Pending};
use super::message::{Answer, Request};
use super::term::MIN_ATTEMPT;
use crate::election::EndReason;
use crate::lease::LeaseId;
use crate::{CandidateId, Epoch, Instant, Random};

/// The release of a lease that no task uses any more. It is a courtesy to the next candidate: if it
/// does not succeed, the lease expires.
#[derive(Debug)]
pub(super) struct Release {
    lease_id: LeaseId,
    /// The term that ends with it; `None` for a campaign that was given up.
    term: Option<(Epoch, EndReason)>,
    pending: Pending,
    failures: u32,
    give_up_at: Instant,
    successor: Option<CandidateId>,
    /// Until when an acquire that was given up may still reach the store, after a release that
    /// found nothing held.
    stray_until: Option<Instant>,
}

impl Release {
    pub(super) fn of_term(
        lease_id: LeaseId,
        term: (Epoch, EndReason),
        successor: Option<CandidateId>,
        now: Instant,
        timings: &Timings,
    ) -> Self {
        Self {
            lease_id,
            term: Some(term),
            pending: Pending::At(now),
            failures: 0,
            // A process that shuts down waits for this, so it is not the whole rest of the lease.
            give_up_at: now + timings.renew_interval(),
            successor,
            stray_until: None,
        }
    }

    /// `asked` is when the acquire in flight was sent, if there is one.
    pub(super) fn of_campaign(
        lease_id: LeaseId,
        asked: Option<Instant>,
        now: Instant,
        timings: &Timings,
    ) -> Self {
        Self {
            lease_id,
            term: None,
            pending: Pending::At(now),
            failures: 0,
            // Time for one attempt that fails and another one.
            give_up_at: now + (timings.renew_interval() / 5).max(2 * MIN_ATTEMPT),
            successor: None,
            stray_until: asked.map(|asked| asked + MIN_ATTEMPT),
        }
    }

    pub(super) fn due(&self) -> Instant {
        self.pending
            .due()
            .map_or(self.give_up_at, |due| due.min(self.give_up_at))
    }

    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        timings: &Timings,
        outbox: &mut Outbox,
    ) -> Next {
        if now >= self.give_up_at {
            return self.finish();
        }
        if self.pending.due().is_some_and(|due| now >= due) {
            let timeout = (timings.renew_interval() / 3).max(MIN_ATTEMPT);
            let lease_id = self.lease_id;
            let request = match &self.successor {
                None => Request::Release {
                    lease_id,
                    reason: self.reason(),
                },
                Some(to) => Request::HandOver {
                    lease_id,
                    to: to.clone(),
                    // The successor waits in the store, or comes within a lease duration, or is not
                    // there.
                    within: timings.lease_duration(),
                },
            };
            self.pending = outbox.send(now, request, timeout);
        }
        Next::Stay
    }

    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        attempt: u64,
        answer: &Answer,
        timings: &Timings,
        random: &mut dyn Random,
    ) -> Next {
        if self.pending.answered(attempt).is_none() {
            return Next::Stay;
        }
        if let Answer::Unknown(_) = answer {
            self.failures += 1;
            self.pending = Pending::At(now + retry_delay(self.failures, timings, random));
            return Next::Stay;
        }
        // Requests on several connections may overtake each other: if the acquire came after this
        // release, the lease would be granted and nobody would use it. After a release that
        // succeeded the id is retired and can't be granted any more.
        let stray = self.stray_until.take_if(|until| now < *until);
        if let (Some(until), false) = (stray, *answer == Answer::Released) {
            self.pending = Pending::At(until);
            return Next::Stay;
        }
        // Released, or no longer held.
        self.finish()
    }

    /// The reason for the store's history. The store itself knows that the lease was broken, and
    /// why.
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

//! Releasing a lease.

use alloc::format;
use core::time::Duration;

use super::Timings;
use super::campaign::retry_delay;
use super::machine::{Context, Pending};
use super::message::{Answer, LeaseEffect, Request};
use super::term::MIN_ATTEMPT;
use crate::election::EndReason;
use crate::lease::LeaseId;
use crate::{CandidateId, Instant};

/// The longest time that the end of a term waits for the release of its lease, after the task has
/// ended. It is shorter than the time that service managers and container platforms give a process
/// to end (10 s or more), however long the lease is.
pub const RELEASE_LIMIT: Duration = Duration::from_secs(5);

/// The longest time that the end of a campaign waits for the withdrawal of its request. No task
/// depends on it, so it is shorter than [`RELEASE_LIMIT`].
pub const WITHDRAWAL_LIMIT: Duration = Duration::from_secs(1);

/// The longest reservation for a successor: the limit of a store by default.
const MOST_WITHIN: Duration = Duration::from_secs(10 * 60);

/// A lease that no task uses any more, and that the store may still count as held. At most one
/// exists, because the candidate sends no request with another lease id before the store has
/// answered the release.
///
/// The end of a term or a campaign waits for the answer only for a limited time. The candidate
/// continues to send the release afterwards, also while it campaigns: a store that was away for
/// longer may have prolonged the lease when it restarted. Without the release, the candidate would
/// wait for the expiry of its own old lease.
///
/// **Why a late or repeated release is harmless.** Its task has ended, so nothing relies on the
/// lease. The store releases only the lease of this id, and no other term ever has this id: each
/// campaign draws a fresh one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Unreleased(Option<Release>);

/// The requests that release a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Release {
    pub(super) lease_id: LeaseId,
    /// The reason for the store's history.
    pub(super) reason: Option<EndReason>,
    pub(super) pending: Pending,
    pub(super) failures: u32,
    /// The time until which the end of the term or the campaign waits for the answer.
    pub(super) awaited_until: Option<Instant>,
    pub(super) successor: Option<CandidateId>,
    /// The time until which an acquire that was given up may still reach the store, if the release
    /// finds that the id holds nothing.
    pub(super) stray_until: Option<Instant>,
}

impl Unreleased {
    /// Begins a release. If an earlier one is not answered yet, the id of `release` was never sent,
    /// so the earlier one is awaited in its place.
    pub(super) fn begin(&mut self, release: Release) {
        match &mut self.0 {
            Some(earlier) => {
                earlier.awaited_until = release.awaited_until;
                if let Pending::At(_) = earlier.pending {
                    earlier.pending = release.pending;
                }
            }
            None => self.0 = Some(release),
        }
    }

    pub(super) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether the end of the term or the campaign waits for the answer.
    pub(super) const fn is_awaited(&self) -> bool {
        matches!(&self.0, Some(release) if release.awaited_until.is_some())
    }

    pub(super) const fn has_failed(&self) -> bool {
        matches!(&self.0, Some(release) if release.failures > 0)
    }

    /// Returns the time at which the release in flight was sent.
    pub(super) fn sent(&self) -> Option<Instant> {
        self.0.as_ref()?.pending.sent()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let release = self.0.as_ref()?;
        let due = [release.pending.due(), release.awaited_until];
        due.into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        let Some(release) = &mut self.0 else { return };
        let awaited = &mut release.awaited_until;
        if awaited.take_if(|until| cx.now >= *until).is_some() {
            // A reservation that begins later would only delay other candidates.
            release.successor = None;
        }
        if release.pending.due().is_some_and(|due| cx.now >= due) {
            release.send(cx);
        }
    }

    /// Returns whether this was the answer to the release.
    pub(super) fn handle_answer(
        &mut self,
        cx: &mut Context<'_>,
        attempt: u64,
        answer: &Answer,
    ) -> bool {
        let Some(release) = &mut self.0 else {
            return false;
        };
        if release.pending.answered(attempt).is_none() {
            return false;
        }
        if release.handle_answer(cx, answer) {
            self.0 = None;
        }
        true
    }
}

impl Release {
    /// Creates the release after a term, which ended for this reason.
    pub(super) fn of_term(cx: &Context<'_>, lease_id: LeaseId, reason: EndReason) -> Self {
        Self {
            // The store itself knows that and why the lease was broken.
            reason: (reason != EndReason::Broken).then_some(reason),
            ..Self::new(cx, lease_id, urgent_interval(cx.timings))
        }
    }

    /// Creates the release after a campaign that was given up.
    pub(super) fn of_campaign(cx: &Context<'_>, lease_id: LeaseId) -> Self {
        // The limit allows for one failed attempt and a second one.
        let limit = cx.timings.poll_interval().max(2 * MIN_ATTEMPT);
        Self::new(cx, lease_id, limit.min(WITHDRAWAL_LIMIT))
    }

    fn new(cx: &Context<'_>, lease_id: LeaseId, limit: Duration) -> Self {
        Self {
            lease_id,
            reason: None,
            pending: Pending::At(cx.now),
            failures: 0,
            awaited_until: Some(cx.now + limit),
            successor: None,
            stray_until: None,
        }
    }

    fn send(&mut self, cx: &mut Context<'_>) {
        let timeout = match self.awaited_until {
            Some(_) => (urgent_interval(cx.timings) / 3).max(MIN_ATTEMPT),
            // A candidate can't lead by a store that takes longer for an answer, so such a store
            // keeps it from nothing if the campaign waits for the release.
            None => cx.timings.renew_interval(),
        };
        let lease_id = self.lease_id;
        let request = match &self.successor {
            None => Request::Release {
                lease_id,
                reason: self.reason,
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

    /// Returns whether the release is complete.
    fn handle_answer(&mut self, cx: &mut Context<'_>, answer: &Answer) -> bool {
        if let Answer::Unknown(why) = answer {
            self.failures += 1;
            let interval = match self.awaited_until {
                Some(_) => urgent_interval(cx.timings),
                None => cx.timings.renew_interval(),
            };
            let delay = retry_delay(self.failures, interval, cx);
            self.pending = Pending::At(cx.now + delay);
            let why = format!("release: {why}");
            cx.outputs.effect(LeaseEffect::Retrying(why, Some(delay)));
            return false;
        }
        // The successor does not wait, or the service refuses the hand-over for another reason. The
        // task has ended, so the lease goes to the next candidate.
        if let (Some(to), Answer::Refused(why)) = (&self.successor, answer) {
            let why = format!("hand over to {to}: {why}; the lease is released instead");
            cx.outputs.effect(LeaseEffect::Retrying(why, None));
            self.successor = None;
            self.pending = Pending::At(cx.now);
            return false;
        }
        // Requests on several connections may overtake each other. If the acquire arrived after
        // this release, the store would grant the lease and no task would use it. After a release
        // that succeeded, the id is retired and can't be granted any more.
        let stray = self.stray_until.take_if(|until| cx.now < *until);
        if let (Some(until), false) = (stray, *answer == Answer::Released) {
            self.pending = Pending::At(until);
            return false;
        }
        if let Answer::Refused(why) | Answer::Denied(why) = answer {
            let why = format!("release: {why}; the lease is left to expire");
            cx.outputs.effect(LeaseEffect::Retrying(why, None));
        }
        // The lease is released, or this id no longer holds it.
        true
    }
}

/// The interval from which the attempts of a release that is awaited are timed.
fn urgent_interval(timings: &Timings) -> Duration {
    timings.renew_interval().min(RELEASE_LIMIT)
}

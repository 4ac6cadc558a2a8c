//! The competition for the lease.

use alloc::format;
use core::time::Duration;

use super::Timings;
use super::machine::{Context, Next, Pending};
use super::message::{Answer, LeaseEffect, Request};
use super::release::{Release, Unreleased};
use super::term::{LeaseTerm, MIN_ATTEMPT};
use crate::election::{CampaignFailure, TermEvent};
use crate::lease::LeaseId;
use crate::{Epoch, Instant};

/// A campaign: a lease id, and requests for the lease until it is granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Campaign {
    lease_id: LeaseId,
    pub(super) min_epoch: Option<Epoch>,
    /// The time at which the campaign begins.
    pub(super) started: Instant,
    pub(super) pending: Pending,
    pub(super) failures: u32,
    /// Whether a request with the lease id may have reached the store.
    asked: bool,
    /// The time since which the store may have granted the lease to this id, although no answer
    /// arrived early enough to lead by it.
    in_doubt_since: Option<Instant>,
    /// Whether the store has confirmed a grant too late.
    granted_late: bool,
}

impl Campaign {
    pub(super) const fn new(start: Instant, lease_id: LeaseId, min_epoch: Option<Epoch>) -> Self {
        Self {
            lease_id,
            min_epoch,
            started: start,
            pending: Pending::At(start),
            failures: 0,
            asked: false,
            in_doubt_since: None,
            granted_late: false,
        }
    }

    pub(super) fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        if self.pending.due().is_some_and(|due| cx.now >= due) {
            self.acquire(cx);
        }
    }

    fn acquire(&mut self, cx: &mut Context<'_>) {
        self.asked = true;
        let wait = self.acquire_wait(cx.timings);
        let request = Request::Acquire {
            lease_id: self.lease_id,
            wait,
            min_epoch: self.min_epoch,
        };
        self.pending = cx.send(request, wait + cx.timings.renew_interval());
    }

    pub(super) fn handle_answer(
        &mut self,
        cx: &mut Context<'_>,
        attempt: u64,
        answer: Answer,
    ) -> Next {
        let Some(sent) = self.pending.answered(attempt) else {
            return Next::Stay;
        };
        match answer {
            // The lease counts from the grant, which may be long after the request was sent, but
            // the candidate must count from the sending of the request. If the answer arrives
            // before the first renewal is due, enough of the lease is left. Otherwise the candidate
            // asks again with the same id, which renews the lease, and counts from the new request.
            Answer::Held(_) if cx.now.since(sent) >= cx.timings.renew_interval() => {
                if !self.granted_late {
                    // The store answers again, so the earlier time in doubt does not count.
                    self.granted_late = true;
                    self.in_doubt_since = None;
                }
                if let Some(release) = self.replace_doubtful_id(cx) {
                    self.retry_later(cx);
                    return Next::ReleaseFirst(release);
                }
                self.acquire(cx);
            }
            Answer::Held(epoch) => {
                return Next::Lead(LeaseTerm::new(cx, self.lease_id, epoch, sent));
            }
            Answer::HeldByAnother(leader) => {
                self.failures = 0;
                self.end_doubt();
                cx.outputs.emit(TermEvent::LeaderSeen(leader));
                if cx.now.since(sent) >= self.acquire_wait(cx.timings) / 2 {
                    self.acquire(cx);
                } else {
                    // The store did not keep the request waiting, so the candidate polls.
                    let pause = cx.random.jitter(cx.timings.poll_interval());
                    self.pending = Pending::At(cx.now + pause);
                }
            }
            Answer::IdRetired
            | Answer::Broken { .. }
            | Answer::Expired
            | Answer::Superseded
            | Answer::Released => {
                // This id can't be granted any more, but a fresh id can.
                self.change_id(cx);
                self.retry_later(cx);
            }
            Answer::Unknown(why) => {
                // The store may have granted the lease, so the candidate keeps the id: with a fresh
                // id it would compete with itself.
                let release = self.replace_doubtful_id(cx);
                let delay = self.retry_later(cx);
                let why = format!("acquire: {why}");
                cx.outputs.effect(LeaseEffect::Retrying(why, Some(delay)));
                if let Some(release) = release {
                    return Next::ReleaseFirst(release);
                }
            }
            Answer::Refused(why) => {
                let failure = CampaignFailure::Refused(why);
                cx.outputs.emit(TermEvent::Failed(failure));
                return Next::Abandon;
            }
            Answer::Denied(why) => {
                cx.outputs
                    .emit(TermEvent::Failed(CampaignFailure::Denied(why)));
                return Next::Abandon;
            }
        }
        Next::Stay
    }

    /// Replaces the id if it has been in doubt for a lease duration, and returns the release of the
    /// old lease.
    ///
    /// Each request that reaches the store renews a lease that the store may have granted. If no
    /// answer arrives in time, no candidate could lead while that continues. So the candidate sends
    /// only the release from now on, until an answer to it arrives, and other candidates can acquire
    /// the lease. No term has begun under the old id, and none will.
    fn replace_doubtful_id(&mut self, cx: &mut Context<'_>) -> Option<Release> {
        let since = *self.in_doubt_since.get_or_insert(cx.now);
        if cx.now.since(since) < cx.timings.lease_duration() {
            return None;
        }
        let release = Release {
            awaited_until: None,
            ..Release::of_campaign(cx, self.lease_id)
        };
        self.change_id(cx);
        Some(release)
    }

    fn change_id(&mut self, cx: &mut Context<'_>) {
        self.lease_id = cx.random.lease_id();
        self.asked = false;
        self.end_doubt();
    }

    const fn end_doubt(&mut self) {
        self.in_doubt_since = None;
        self.granted_late = false;
    }

    /// Returns whether the store has not answered the last requests.
    pub(super) const fn is_unanswered(&self) -> bool {
        self.in_doubt_since.is_some() && !self.granted_late
    }

    fn retry_later(&mut self, cx: &mut Context<'_>) -> Duration {
        self.failures += 1;
        let delay = retry_delay(self.failures, cx.timings.renew_interval(), cx);
        self.pending = Pending::At(cx.now + delay);
        delay
    }

    /// Gives up the campaign. The store may have granted the lease, or may grant it later, without
    /// the candidate's knowledge. Then there would be no leader for a whole lease duration, so the
    /// lease is released.
    pub(super) fn withdraw(&self, cx: &Context<'_>, unreleased: &mut Unreleased) {
        // If an earlier lease is not released yet, its release is awaited.
        if self.asked || !unreleased.is_none() {
            unreleased.begin(Release {
                stray_until: self.pending.sent().map(|sent| sent + MIN_ATTEMPT),
                ..Release::of_campaign(cx, self.lease_id)
            });
        }
    }

    /// Returns how long the store may keep an acquire waiting. The time is at most the lease
    /// duration, so that a connection that failed silently is noticed in time. A candidate that is
    /// also elected among peers blocks its peers meanwhile, so it asks the store more often.
    pub(super) fn acquire_wait(&self, timings: &Timings) -> Duration {
        if self.min_epoch.is_some() {
            return timings.renew_interval();
        }
        timings.lease_duration().min(Duration::from_secs(30))
    }
}

/// Returns the delay before the next attempt after this number of failures in a row: a twentieth of
/// the renew interval, doubled each time up to half of the interval, with jitter.
pub(super) fn retry_delay(failures: u32, interval: Duration, cx: &mut Context<'_>) -> Duration {
    cx.random.jitter(doubled_delay(failures, interval))
}

/// Returns the delay before the next attempt if a term ends after the time that is `left`, unless an
/// attempt succeeds before: as [`retry_delay`], but at most a sixth of that time, so that a store
/// that is back shortly before the end is asked. It is never below a twentieth of the renew
/// interval, so a store gets at most 20 attempts of a term in an interval.
pub(super) fn retry_delay_within(left: Duration, failures: u32, cx: &mut Context<'_>) -> Duration {
    let interval = cx.timings.renew_interval();
    let first = doubled_delay(1, interval);
    let delay = doubled_delay(failures, interval).min((left / 6).max(first));
    cx.random.jitter(delay)
}

fn doubled_delay(failures: u32, interval: Duration) -> Duration {
    let doubled = interval / 20 * 2_u32.saturating_pow(failures.saturating_sub(1).min(8));
    doubled.min(interval / 2)
}

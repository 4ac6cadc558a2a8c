//! Competing for the lease.

use alloc::format;
use core::time::Duration;

use super::Timings;
use super::machine::{Next, Outbox, Pending};
use super::message::{Answer, LeaseEffect, Request};
use super::release::Release;
use super::term::LeaseTerm;
use crate::election::{CampaignFailure, TermEvent};
use crate::lease::LeaseId;
use crate::{Epoch, Instant, Random};

/// A campaign: a lease id, and requests for the lease until it is granted.
#[derive(Debug)]
pub(super) struct Campaign {
    lease_id: LeaseId,
    min_epoch: Option<Epoch>,
    pending: Pending,
    failures: u32,
    /// Whether the store may know the lease id.
    asked: bool,
    /// Since when the store may have granted the lease to this id without an answer that was in
    /// time to lead by.
    in_doubt_since: Option<Instant>,
    /// Whether an answer has said so, too late.
    granted_late: bool,
}

impl Campaign {
    pub(super) const fn new(start: Instant, lease_id: LeaseId, min_epoch: Option<Epoch>) -> Self {
        Self {
            lease_id,
            min_epoch,
            pending: Pending::At(start),
            failures: 0,
            asked: false,
            in_doubt_since: None,
            granted_late: false,
        }
    }

    pub(super) const fn due(&self) -> Option<Instant> {
        self.pending.due()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, timings: &Timings, outbox: &mut Outbox) {
        if self.pending.due().is_some_and(|due| now >= due) {
            self.acquire(now, timings, outbox);
        }
    }

    fn acquire(&mut self, now: Instant, timings: &Timings, outbox: &mut Outbox) {
        self.asked = true;
        let wait = self.acquire_wait(timings);
        let request = Request::Acquire {
            lease_id: self.lease_id,
            wait,
            min_epoch: self.min_epoch,
        };
        self.pending = outbox.send(now, request, wait + timings.renew_interval());
    }

    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        attempt: u64,
        answer: Answer,
        timings: &Timings,
        outbox: &mut Outbox,
        random: &mut dyn Random,
    ) -> Next {
        let Some(sent) = self.pending.answered(attempt) else {
            return Next::Stay;
        };
        match answer {
            // The store counts from the grant, which may be long after the request was sent, and
            // the candidate knows only when the request was sent. Before the first renewal is due
            // that is good enough. After that it asks again: the same id renews, and that request
            // is young.
            Answer::Held(_) if now.since(sent) >= timings.renew_interval() => {
                if !self.granted_late {
                    // The store answers again, so earlier doubts no longer count.
                    self.granted_late = true;
                    self.in_doubt_since = None;
                }
                if self.replace_doubtful_id(now, timings, outbox, random) {
                    self.retry_later(now, timings, random);
                } else {
                    self.acquire(now, timings, outbox);
                }
            }
            Answer::Held(epoch) => {
                return Next::Lead(LeaseTerm::new(
                    self.lease_id,
                    epoch,
                    (sent, now),
                    timings,
                    random,
                ));
            }
            Answer::HeldByAnother { holder, epoch } => {
                self.failures = 0;
                self.end_doubt();
                outbox.emit(TermEvent::LeaderSeen(holder.zip(epoch)));
                if now.since(sent) >= self.acquire_wait(timings) / 2 {
                    self.acquire(now, timings, outbox);
                } else {
                    // The store did not keep the request waiting: ask again from time to time.
                    self.pending = Pending::At(now + random.jitter(timings.renew_interval() / 5));
                }
            }
            Answer::IdRetired
            | Answer::Broken { .. }
            | Answer::Expired
            | Answer::Superseded
            | Answer::Released => {
                // This id can't win any more; a fresh one can.
                self.change_id(random);
                self.retry_later(now, timings, random);
            }
            Answer::Unknown(why) => {
                // The store may have granted the lease: keep the id, and don't compete with
                // oneself.
                self.replace_doubtful_id(now, timings, outbox, random);
                let delay = self.retry_later(now, timings, random);
                outbox.effect(LeaseEffect::Retrying(format!(
                    "acquire: {why}; trying again in {delay:.1?}"
                )));
            }
            Answer::Refused(why) => {
                outbox.emit(TermEvent::Failed(CampaignFailure::Refused(why)));
                return Next::Abandon;
            }
            Answer::Denied(why) => {
                outbox.emit(TermEvent::Failed(CampaignFailure::Denied(why)));
                return Next::Abandon;
            }
        }
        Next::Stay
    }

    /// Replaces the id by a fresh one if it has been in doubt for as long as a lease lasts.
    ///
    /// Each request that reaches the store prolongs what it may have granted. If answers never come
    /// in time, nobody could lead for as long as that goes on. So the lease is released, or expires
    /// if the release does not get through, and other candidates have their turn. No term has begun
    /// under the id, and none ever will.
    fn replace_doubtful_id(
        &mut self,
        now: Instant,
        timings: &Timings,
        outbox: &mut Outbox,
        random: &mut dyn Random,
    ) -> bool {
        let since = *self.in_doubt_since.get_or_insert(now);
        if now.since(since) < timings.lease_duration() {
            return false;
        }
        // The answer is not awaited.
        let release = Request::Release {
            lease_id: self.lease_id,
            reason: None,
        };
        outbox.send(now, release, timings.renew_interval() / 3);
        self.change_id(random);
        true
    }

    fn change_id(&mut self, random: &mut dyn Random) {
        self.lease_id = random.lease_id();
        self.asked = false;
        self.end_doubt();
    }

    const fn end_doubt(&mut self) {
        self.in_doubt_since = None;
        self.granted_late = false;
    }

    fn retry_later(
        &mut self,
        now: Instant,
        timings: &Timings,
        random: &mut dyn Random,
    ) -> Duration {
        self.failures += 1;
        let delay = retry_delay(self.failures, timings, random);
        self.pending = Pending::At(now + delay);
        delay
    }

    /// Gives the campaign up. The store may have granted the lease, or be about to, while the
    /// candidate does not know it: then nobody would lead for a whole lease duration, so the lease
    /// is released.
    pub(super) fn withdraw(&self, now: Instant, timings: &Timings) -> Next {
        if self.asked {
            let asked = self.pending.sent();
            Next::Release(Release::of_campaign(self.lease_id, asked, now, timings))
        } else {
            Next::Withdrawn
        }
    }

    /// How long the store may keep an acquire waiting. Not longer than the lease duration, so that
    /// a path that died silently is noticed in time. A candidate that has been elected elsewhere,
    /// too, keeps others waiting there, so it asks the store more often.
    fn acquire_wait(&self, timings: &Timings) -> Duration {
        if self.min_epoch.is_some() {
            return timings.renew_interval();
        }
        timings.lease_duration().min(Duration::from_secs(30))
    }
}

/// The delay before the next attempt after this many failures in a row: a twentieth of the renew
/// interval, doubled each time up to half of it, with jitter.
pub(super) fn retry_delay(failures: u32, timings: &Timings, random: &mut dyn Random) -> Duration {
    let first = timings.renew_interval() / 20;
    let doubled = first * 2_u32.saturating_pow(failures.saturating_sub(1).min(8));
    random.jitter(doubled.min(timings.renew_interval() / 2))
}

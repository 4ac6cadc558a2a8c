//! The requests of clients and the answers of a store, and a check whether they are possible.
//!
//! Every answer of a store contains a revision, so the order of its operations need not be searched
//! for: calls are sorted by revision and replayed by the rules of leases. If an instant is only
//! known to be between a request and its answer, the check assumes the case that is best for the
//! store, so its findings are certain.

mod call;

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::lease::{
    Acquire, Change, LeaseDuration, LeaseId, Metadata, Operation, Record, Rejection, Rules, State,
    apply,
};
use tenure_core::{CandidateId, Epoch, Instant, UnixMillis};

pub use call::{Answer, Call, Seen, What};

/// A violation in a history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Violation {
    /// A grant during another term, by the order of revisions.
    TwoHolders { epoch: u64, why: String },
    /// A grant while another holder certainly held the lease, by the clocks of clients.
    GrantedInsideHold { epoch: u64, held: u64 },
    /// Two terms have the same epoch.
    EpochTwice { epoch: u64 },
    /// A term has a smaller epoch than an earlier one.
    EpochBackwards { epoch: u64, before: u64 },
    /// A certain holder was refused.
    RefusedHolder { epoch: u64 },
    /// A term is shown with another holder than its candidate.
    WrongHolder { epoch: u64 },
    /// A renewal was confirmed for the term of another holder.
    RenewedAnother { epoch: Option<u64> },
    /// An answer is older than one that had arrived before its request was sent.
    WentBack { revision: u64, known: u64 },
    /// Two answers with one revision contradict each other.
    TwoContents { revision: u64 },
}

/// Checks all leases of a history.
///
/// # Errors
///
/// The first violation, and its lease.
pub fn check(calls: &[Call]) -> Result<(), (String, Violation)> {
    let mut leases: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        leases.entry(&call.lease).or_default().push(call);
    }
    for (lease, calls) in leases {
        let history = Lease::new(&calls);
        let checks = [
            Lease::reads,
            Lease::contents,
            Lease::epochs,
            Lease::holders,
            Lease::windows,
            Lease::refusals,
            Lease::replay,
        ];
        for check in checks {
            check(&history).map_err(|violation| (lease.to_owned(), violation))?;
        }
    }
    Ok(())
}

/// An answered call.
#[derive(Clone, Copy)]
struct Done<'a> {
    what: &'a What,
    sent: Instant,
    received: Instant,
    seen: &'a Seen,
}

/// The extension of a term that seems expired because of imprecise times.
const AN_INSTANT: Duration = Duration::from_millis(1);

struct Lease<'a> {
    /// In the order of revisions, then of sending.
    done: Vec<Done<'a>>,
    /// In the order of revisions.
    grants: Vec<Grant<'a>>,
    /// Refused requests of holders: the lease id, and the times of sending and of the answer.
    refused: Vec<(LeaseId, Instant, Instant)>,
    /// Acquires without an answer. Each may have begun a term after it was sent.
    unanswered: Vec<(LeaseId, &'a CandidateId, Instant)>,
    /// Possible ends of terms: requests with an unknown effect, and renewals for a shorter time.
    /// The lease id (`None` for any), and the earliest time.
    perhaps_ended: Vec<(Option<LeaseId>, Instant)>,
}

/// The begin of a term that is visible in an answer.
#[derive(Clone, Copy)]
struct Grant<'a> {
    lease_id: LeaseId,
    holder: &'a CandidateId,
    epoch: u64,
    duration: LeaseDuration,
    revision: u64,
    /// The time of the first request, and of the first answer.
    sent: Instant,
    received: Instant,
}

impl<'a> Lease<'a> {
    fn new(calls: &[&'a Call]) -> Self {
        let mut done = Vec::new();
        let mut perhaps_ended = Vec::new();
        let mut shortened = Vec::new();
        let mut changed = Vec::new();
        let mut refused = Vec::new();
        let mut unanswered = Vec::new();
        let mut asked: BTreeMap<LeaseId, Instant> = BTreeMap::new();
        for call in calls {
            if let What::Acquire {
                lease_id, holder, ..
            } = &call.what
            {
                let first = asked.entry(*lease_id).or_insert(call.sent);
                *first = (*first).min(call.sent);
                if call.answer.is_none() {
                    unanswered.push((*lease_id, holder, call.sent));
                }
            }
            if let What::Change { lease_id, proposed } = call.what {
                changed.push((call.sent, lease_id, proposed));
            }
            match (&call.what, &call.answer) {
                (_, Some((received, Answer::Done(seen)))) => done.push(Done {
                    what: &call.what,
                    sent: call.sent,
                    received: *received,
                    seen,
                }),
                (What::Break, None) => perhaps_ended.push((None, call.sent)),
                (what, Some((received, Answer::Refused))) => {
                    refused.extend(what.lease_id().map(|id| (id, call.sent, *received)));
                }
                (
                    What::Renew {
                        lease_id,
                        duration: Some(LeaseDuration::Fixed(fixed)),
                    },
                    None,
                ) => shortened.push((*lease_id, call.sent + *fixed)),
                (what, None) => perhaps_ended.extend(what.ends().map(|id| (Some(id), call.sent))),
            }
        }
        // A term keeps its duration under another lease id.
        changed.sort_by_key(|(sent, ..)| *sent);
        for (_, before, after) in changed {
            let ends = shortened.iter().filter(|(lease_id, _)| *lease_id == before);
            let ends: Vec<_> = ends.map(|(_, since)| (after, *since)).collect();
            shortened.extend(ends);
        }
        perhaps_ended.extend(shortened.into_iter().map(|(id, since)| (Some(id), since)));
        done.sort_by_key(|done| (done.seen.revision, done.sent));
        let mut grants: Vec<Grant> = Vec::new();
        for done in &done {
            let What::Acquire {
                lease_id,
                duration,
                holder,
            } = done.what
            else {
                continue;
            };
            let Some(epoch) = done.seen.epoch else {
                continue;
            };
            let known = grants
                .iter_mut()
                .find(|grant| (grant.lease_id, grant.epoch) == (*lease_id, epoch));
            match known {
                Some(grant) => grant.received = grant.received.min(done.received),
                None => grants.push(Grant {
                    lease_id: *lease_id,
                    holder,
                    epoch,
                    duration: *duration,
                    revision: done.seen.revision,
                    sent: asked[lease_id],
                    received: done.received,
                }),
            }
        }
        Self {
            done,
            grants,
            refused,
            unanswered,
            perhaps_ended,
        }
    }

    /// No answer is older than one that arrived before its request was sent.
    fn reads(&self) -> Result<(), Violation> {
        let mut arrived: Vec<_> = self.done.iter().collect();
        arrived.sort_by_key(|done| done.received);
        let mut asked: Vec<_> = self.done.iter().collect();
        asked.sort_by_key(|done| done.sent);
        let mut arrived = arrived.into_iter().peekable();
        let mut known = 0;
        for done in asked {
            while let Some(earlier) = arrived.next_if(|earlier| earlier.received < done.sent) {
                known = known.max(earlier.seen.revision);
            }
            let revision = done.seen.revision;
            if revision < known {
                return Err(Violation::WentBack { revision, known });
            }
        }
        Ok(())
    }

    /// Answers with one revision have the same content, except that a term may be shown as ended
    /// once its time is over: while the store can't write, that end has no revision.
    fn contents(&self) -> Result<(), Violation> {
        for same in self
            .done
            .chunk_by(|a, b| a.seen.revision == b.seen.revision)
        {
            let revision = same[0].seen.revision;
            let is_ended = |done: &&Done<'_>| {
                done.seen.epoch.is_none()
                    && matches!(done.seen.state, State::Expired | State::Broken)
            };
            let mut contents = same.iter().filter(|done| !is_ended(done));
            let Some(first) = contents.next() else {
                continue;
            };
            let held = self.grants.iter();
            let mut held = held.filter(|grant| Some(grant.epoch) == first.seen.epoch);
            let end = held.next().map_or(first.sent, |grant| self.window(grant).1);
            let is_early = |done: &Done<'_>| first.seen.epoch.is_none() || done.received < end;
            if contents.any(|done| done.seen != first.seen)
                || same.iter().filter(is_ended).any(is_early)
            {
                return Err(Violation::TwoContents { revision });
            }
        }
        Ok(())
    }

    /// Epochs are unique and increase, in the order of revisions and in real time.
    fn epochs(&self) -> Result<(), Violation> {
        let mut ids: BTreeMap<u64, LeaseId> = BTreeMap::new();
        for grant in &self.grants {
            let epoch = grant.epoch;
            if *ids.entry(epoch).or_insert(grant.lease_id) != grant.lease_id {
                return Err(Violation::EpochTwice { epoch });
            }
        }
        let backwards = |before: &Grant, after: &Grant| Violation::EpochBackwards {
            epoch: after.epoch,
            before: before.epoch,
        };
        for pair in self.grants.windows(2) {
            if pair[1].epoch <= pair[0].epoch {
                return Err(backwards(&pair[0], &pair[1]));
            }
        }
        for after in &self.grants {
            let mut earlier = self.grants.iter();
            let wrong =
                earlier.find(|before| before.received < after.sent && before.epoch > after.epoch);
            if let Some(before) = wrong {
                return Err(backwards(before, after));
            }
        }
        Ok(())
    }

    /// All views of a term show the candidate that acquired it.
    fn holders(&self) -> Result<(), Violation> {
        for grant in &self.grants {
            let shown = |done: &&Done<'_>| done.seen.epoch == Some(grant.epoch);
            let holder = Some(grant.holder.as_str());
            let mut shown = self.done.iter().filter(shown);
            if shown.any(|done| done.seen.holder.as_deref() != holder) {
                let epoch = grant.epoch;
                return Err(Violation::WrongHolder { epoch });
            }
        }
        Ok(())
    }

    /// A client that certainly holds the lease, from the request to the answer, is not refused.
    fn refusals(&self) -> Result<(), Violation> {
        for grant in &self.grants {
            let (start, end, epoch) = self.window(grant);
            let mut refused = self.refused.iter();
            let is_refused = refused.any(|&(lease_id, sent, received)| {
                lease_id == grant.lease_id && start <= sent && received <= end
            });
            if is_refused {
                return Err(Violation::RefusedHolder { epoch });
            }
        }
        Ok(())
    }

    /// A holder certainly holds the lease from the answer with its grant until the end of the last
    /// confirmed renewal, counted from its sending, or until its request to end the term. No other
    /// client holds the lease in that time.
    fn windows(&self) -> Result<(), Violation> {
        let windows: Vec<_> = self.grants.iter().map(|grant| self.window(grant)).collect();
        for (grant, window) in self.grants.iter().zip(&windows) {
            for &(start, end, held) in windows.iter().filter(|other| other.2 != grant.epoch) {
                let is_inside = start <= grant.sent && grant.received <= end;
                let overlaps = start < window.1 && window.0 < end && window.0 < window.1;
                if start < end && (is_inside || overlaps) {
                    let (held, epoch) = (held.min(grant.epoch), held.max(grant.epoch));
                    return Err(Violation::GrantedInsideHold { epoch, held });
                }
            }
        }
        Ok(())
    }

    fn window(&self, grant: &Grant<'_>) -> (Instant, Instant, u64) {
        let until = |since, duration| match duration {
            LeaseDuration::Fixed(fixed) => since + fixed,
            LeaseDuration::Infinite => since + Duration::MAX,
        };
        let mut duration = grant.duration;
        // The grant came some time after its request; only later renewals prove that it was held
        // for longer.
        let mut end = until(grant.sent, duration).max(grant.received);
        let mut cut = Instant::default() + Duration::MAX;
        for done in &self.done {
            match *done.what {
                What::Acquire {
                    lease_id,
                    duration: asked,
                    ..
                } if lease_id == grant.lease_id
                    && done.seen.epoch == Some(grant.epoch)
                    && done.sent >= grant.received =>
                {
                    // A repeated acquire shortens nothing.
                    duration = duration.max(asked);
                    end = end.max(until(done.sent, asked));
                }
                What::Renew {
                    lease_id,
                    duration: asked,
                } if lease_id == grant.lease_id => {
                    if let Some(asked) = asked.filter(|asked| *asked < duration) {
                        // This renewal may be the last of several in flight.
                        cut = cut.min(until(done.sent, asked));
                    }
                    duration = asked.unwrap_or(duration);
                    end = end.max(until(done.sent, duration));
                }
                What::Break if done.seen.revision > grant.revision => cut = cut.min(done.sent),
                ref what if what.ends() == Some(grant.lease_id) => cut = cut.min(done.sent),
                _ => {}
            }
        }
        for &(ids, since) in &self.perhaps_ended {
            if ids.is_none_or(|lease_id| lease_id == grant.lease_id) {
                cut = cut.min(since);
            }
        }
        (grant.received, end.min(cut), grant.epoch)
    }

    /// All operations are possible by the rules of leases, in the order of revisions.
    fn replay(&self) -> Result<(), Violation> {
        // The time of an operation is imprecise, so a renewal may seem late without being so.
        let rules = Rules {
            renew_after_expiry: true,
            ..Rules::NATIVE
        };
        let mut record = Record::default();
        let mut granted = self.grants.iter().peekable();
        for done in &self.done {
            if let Some(grant) = granted.next_if(|grant| grant.revision <= done.seen.revision) {
                self.begin(&mut record, grant)?;
            }
            let step = match done.what.clone() {
                What::Acquire {
                    lease_id, duration, ..
                } => Operation::Renew(lease_id, Some(duration)),
                What::Renew { lease_id, duration } => Operation::Renew(lease_id, duration),
                What::Release { lease_id } => Operation::Release(lease_id),
                What::HandOver {
                    lease_id,
                    to,
                    within,
                } => Operation::HandOver {
                    lease_id,
                    to,
                    within,
                    forced: true,
                },
                What::Change { lease_id, proposed } => Operation::Change { lease_id, proposed },
                What::Describe { lease_id } => Operation::SetMetadata(lease_id, Metadata::new()),
                What::Break => Operation::Break(Some(Duration::ZERO)),
                What::Read => {
                    self.pass(&mut record, done);
                    continue;
                }
            };
            // The begin of the term was replayed above; a repeated acquire renews.
            let is_renewal = done.what.keeps_the_term();
            let current = record.last_grant().map(|grant| grant.epoch.get());
            if is_renewal && done.seen.epoch != current {
                return Err(Violation::RenewedAnother {
                    epoch: done.seen.epoch,
                });
            }
            let now = done.sent.max(self.earliest(done.seen.revision));
            if let (What::Change { .. } | What::Describe { .. } | What::HandOver { .. }, Some(id)) =
                (done.what, done.what.lease_id())
                && record.held(now).is_none()
            {
                // The times are imprecise here too. None of these requests extends a term.
                let for_now = Operation::Renew(id, Some(LeaseDuration::Fixed(AN_INSTANT)));
                let _ = apply(&mut record, &for_now, now, &rules);
            }
            let refused = apply(&mut record, &step, now, &rules).is_err();
            if is_renewal && refused {
                return Err(Violation::RenewedAnother {
                    epoch: done.seen.epoch,
                });
            }
        }
        Ok(())
    }

    /// Replays a term that only a read shows, because no acquire of its holder was answered.
    fn pass(&self, record: &mut Record, read: &Done<'_>) {
        let current = record.last_grant().map(|grant| grant.epoch.get());
        let epoch = read.seen.epoch.filter(|epoch| Some(*epoch) > current);
        let Some(epoch) = epoch.filter(|epoch| self.grants.iter().all(|it| it.epoch != *epoch))
        else {
            return;
        };
        if let Some(holder) = read.seen.holder.as_deref() {
            self.begin_unanswered(record, holder, epoch, self.latest(read.seen.revision));
        }
    }

    /// Replays a term of a holder none of whose acquires was answered. It ends a reservation.
    /// Nothing is known about its own end, so here it is over at once.
    fn begin_unanswered(&self, record: &mut Record, holder: &str, epoch: u64, now: Instant) {
        let mut unanswered = self.unanswered.iter();
        let asked = unanswered.find(|(_, asked, sent)| asked.as_str() == holder && *sent < now);
        if let Some((lease_id, holder, _)) = asked {
            // A release would also retire the lease id, and the term may have expired.
            let request = acquire(*lease_id, holder, LeaseDuration::Fixed(Duration::ZERO));
            let begun = Operation::Acquire(request, UnixMillis::new(epoch));
            let _ = apply(record, &begun, now, &Rules::NATIVE);
        }
    }

    fn begin(&self, record: &mut Record, grant: &Grant<'_>) -> Result<(), Violation> {
        let (earliest, latest) = (self.earliest(grant.revision), self.latest(grant.revision));
        let earliest = earliest.max(grant.sent);
        record.settle(latest);
        if let Some(held) = record.held(latest) {
            let lease_id = held.lease_id;
            let mut ends = self.perhaps_ended.iter();
            if ends.any(|&(ids, since)| ids.is_none_or(|id| id == lease_id) && since < latest) {
                let _ = apply(
                    record,
                    &Operation::Release(lease_id),
                    latest,
                    &Rules::NATIVE,
                );
            }
        }
        let request = acquire(grant.lease_id, grant.holder, grant.duration);
        let operation = Operation::Acquire(request, UnixMillis::new(grant.epoch));
        let two = |why| Violation::TwoHolders {
            epoch: grant.epoch,
            why,
        };
        let mut applied = apply(record, &operation, earliest, &Rules::NATIVE);
        if matches!(applied, Err(Rejection::Reserved { .. })) {
            // The exact end of the reservation is unknown. A break without an answer may have ended
            // it.
            let mut ends = self.perhaps_ended.iter();
            if ends.any(|&(ids, since)| ids.is_none() && since < latest) {
                let lift = Operation::Break(Some(Duration::ZERO));
                let _ = apply(record, &lift, latest, &Rules::NATIVE);
            }
            applied = apply(record, &operation, latest, &Rules::NATIVE);
        }
        let older = self.done.iter().map(|done| done.seen.revision);
        let older = older.filter(|revision| *revision < grant.revision).max();
        // Between the two revisions, another term may have begun and ended.
        let has_room = older.is_some_and(|older| grant.revision - older > 2);
        if let Err(Rejection::Reserved { to, .. }) = &applied
            && has_room
        {
            // The store gives a grant back if the client no longer waits for it.
            self.begin_unanswered(record, to.as_str(), grant.epoch - 1, latest);
            applied = apply(record, &operation, latest, &Rules::NATIVE);
        }
        match applied {
            Ok(applied) if applied.change == granted(grant.epoch) => Ok(()),
            Ok(applied) => Err(two(format!("{:?}", applied.change))),
            Err(error) => Err(two(error.to_string())),
        }
    }

    /// The revision was made after the last request with an older revision was sent.
    fn earliest(&self, revision: u64) -> Instant {
        let older = self
            .done
            .iter()
            .take_while(|done| done.seen.revision < revision);
        older.map(|done| done.sent).max().unwrap_or_default()
    }

    /// The revision was made before any client knew it.
    fn latest(&self, revision: u64) -> Instant {
        let newer = self.done.iter().rev();
        let newer = newer.take_while(|done| done.seen.revision >= revision);
        newer.map(|done| done.received).min().unwrap_or_default()
    }
}

fn acquire(lease_id: LeaseId, holder: &CandidateId, duration: LeaseDuration) -> Acquire {
    Acquire {
        lease_id,
        holder: holder.clone(),
        duration,
        lock_delay: Duration::ZERO,
        min_epoch: None,
        by_operator: false,
        metadata: Metadata::new(),
    }
}

fn granted(epoch: u64) -> Change {
    Change::Granted(Epoch::new(epoch).unwrap_or(Epoch::MAX))
}

#[cfg(test)]
mod tests;

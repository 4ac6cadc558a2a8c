//! What clients asked a store and what it answered, and whether that can be true.
//!
//! Every answer of a store carries a revision, so the order in which it did things need not be
//! searched for: calls are sorted by revision and replayed by the rules of leases themselves. Where
//! an instant is only known to lie between a question and its answer, the one is taken that excuses
//! the store most, so what is reported is certain.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::lease::{
    Acquire, Change, LeaseDuration, LeaseId, Metadata, Operation, Record, Rejection, Rules, State,
    apply,
};
use tenure_core::{CandidateId, Epoch, Instant, UnixMillis};

/// One request and what came of it.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which lease, with its namespace.
    pub lease: String,
    /// What was asked.
    pub what: What,
    /// When it was asked.
    pub sent: Instant,
    /// When the answer came, if one did. Without one nothing is known of what the store did.
    pub answer: Option<(Instant, Answer)>,
}

/// What may be asked, as far as it matters to the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// To hold.
    Acquire {
        /// Under this id.
        lease_id: LeaseId,
        /// For so long.
        duration: LeaseDuration,
        /// In this name.
        holder: CandidateId,
    },
    /// To hold on.
    Renew {
        /// Under this id.
        lease_id: LeaseId,
        /// For so long from now on.
        duration: Option<LeaseDuration>,
    },
    /// To give up.
    Release {
        /// This id.
        lease_id: LeaseId,
    },
    /// To give up in favour of another.
    HandOver {
        /// This id.
        lease_id: LeaseId,
        /// To this candidate.
        to: CandidateId,
        /// Who alone is granted for so long.
        within: Duration,
    },
    /// To hold under another id.
    Change {
        /// Instead of this one.
        lease_id: LeaseId,
        /// This one.
        proposed: LeaseId,
    },
    /// To say something of itself.
    Describe {
        /// As the holder under this id.
        lease_id: LeaseId,
    },
    /// To end whoever's term it is.
    Break,
    /// To see.
    Read,
}

/// What a store may answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done, and the lease is now so.
    Done(Seen),
    /// It was refused.
    Refused,
}

/// A lease as an answer shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The store's revision.
    pub revision: u64,
    /// The state.
    pub state: State,
    /// The holder.
    pub holder: Option<String>,
    /// The holder's epoch.
    pub epoch: Option<u64>,
}

/// A promise that a history shows broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Violation {
    /// Somebody was granted a lease while another one held it, as the rules see it.
    TwoHolders { epoch: u64, why: String },
    /// Somebody was granted a lease while another one certainly held it, revisions aside.
    GrantedInsideHold { epoch: u64, held: u64 },
    /// Two terms have the same number.
    EpochTwice { epoch: u64 },
    /// A term has a smaller number than one before it.
    EpochBackwards { epoch: u64, before: u64 },
    /// Somebody was refused as not holding who certainly held.
    RefusedHolder { epoch: u64 },
    /// A term is told to be another one's than who asked for it.
    WrongHolder { epoch: u64 },
    /// A renewal was confirmed to somebody whose term it is not.
    RenewedAnother { epoch: Option<u64> },
    /// An answer is older than one that had arrived before the question was sent.
    WentBack { revision: u64, known: u64 },
    /// Two answers of one revision contradict each other.
    TwoTruths { revision: u64 },
}

/// Checks all leases of a history.
///
/// # Errors
///
/// The first broken promise, and the lease.
pub fn check(calls: &[Call]) -> Result<(), (String, Violation)> {
    let mut leases: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        leases.entry(&call.lease).or_default().push(call);
    }
    for (lease, calls) in leases {
        let history = Lease::new(&calls);
        let checks = [
            Lease::reads,
            Lease::truths,
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

impl What {
    /// The id under which it is asked, if a holder asks for it.
    const fn lease_id(&self) -> Option<LeaseId> {
        match *self {
            Self::Acquire { lease_id, .. }
            | Self::Renew { lease_id, .. }
            | Self::Release { lease_id }
            | Self::HandOver { lease_id, .. }
            | Self::Change { lease_id, .. }
            | Self::Describe { lease_id } => Some(lease_id),
            Self::Break | Self::Read => None,
        }
    }

    /// The id that holds no more if it is done.
    fn ends(&self) -> Option<LeaseId> {
        let ends = matches!(
            self,
            Self::Release { .. } | Self::HandOver { .. } | Self::Change { .. }
        );
        self.lease_id().filter(|_| ends)
    }

    /// Whether only whoever holds gets it, and goes on holding.
    const fn goes_on(&self) -> bool {
        matches!(
            self,
            Self::Acquire { .. } | Self::Renew { .. } | Self::Change { .. } | Self::Describe { .. }
        )
    }
}

/// An answered call.
#[derive(Clone, Copy)]
struct Done<'a> {
    what: &'a What,
    sent: Instant,
    received: Instant,
    seen: &'a Seen,
}

/// How long a term is brought back that seems to have lapsed and has not.
const AN_INSTANT: Duration = Duration::from_millis(1);

struct Lease<'a> {
    /// In order of revisions, then of questions.
    done: Vec<Done<'a>>,
    /// In order of revisions.
    grants: Vec<Grant<'a>>,
    /// What only a holder may ask for and was refused: under which id, when it was asked and answered.
    refused: Vec<(LeaseId, Instant, Instant)>,
    /// Ends of terms that were asked for and may have happened or not, or came from a renewal for a
    /// shorter time: whose, and since when.
    perhaps_ended: Vec<(Option<LeaseId>, Instant)>,
}

/// The begin of a term that somebody was told of.
#[derive(Clone, Copy)]
struct Grant<'a> {
    lease_id: LeaseId,
    holder: &'a CandidateId,
    epoch: u64,
    duration: LeaseDuration,
    revision: u64,
    /// It was first asked for, and first known.
    sent: Instant,
    received: Instant,
}

impl<'a> Lease<'a> {
    fn new(calls: &[&'a Call]) -> Self {
        let mut done = Vec::new();
        let mut perhaps_ended = Vec::new();
        let mut refused = Vec::new();
        let mut asked: BTreeMap<LeaseId, Instant> = BTreeMap::new();
        for call in calls {
            if let What::Acquire { lease_id, .. } = call.what {
                let first = asked.entry(lease_id).or_insert(call.sent);
                *first = (*first).min(call.sent);
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
                ) => perhaps_ended.push((Some(*lease_id), call.sent + *fixed)),
                (what, None) => perhaps_ended.extend(what.ends().map(|id| (Some(id), call.sent))),
            }
        }
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
            perhaps_ended,
        }
    }

    /// No answer is older than what was known before its question.
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

    /// Answers of one revision say the same.
    fn truths(&self) -> Result<(), Violation> {
        for pair in self.done.windows(2) {
            let [one, other] = [pair[0].seen, pair[1].seen];
            let revision = one.revision;
            if revision == other.revision && one != other {
                return Err(Violation::TwoTruths { revision });
            }
        }
        Ok(())
    }

    /// Epochs are unique and increase, in the order of revisions and in that of real time.
    fn epochs(&self) -> Result<(), Violation> {
        let mut whose: BTreeMap<u64, LeaseId> = BTreeMap::new();
        for grant in &self.grants {
            let epoch = grant.epoch;
            if *whose.entry(epoch).or_insert(grant.lease_id) != grant.lease_id {
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

    /// A term is always told to be the one's who asked for it.
    fn holders(&self) -> Result<(), Violation> {
        for grant in &self.grants {
            let told = |done: &&Done<'_>| done.seen.epoch == Some(grant.epoch);
            let holder = Some(grant.holder.as_str());
            let mut told = self.done.iter().filter(told);
            if told.any(|done| done.seen.holder.as_deref() != holder) {
                let epoch = grant.epoch;
                return Err(Violation::WrongHolder { epoch });
            }
        }
        Ok(())
    }

    /// Who certainly held, from the question to the answer, is not refused as one who does not.
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

    /// From when it knew of its grant until its last confirmed renewal was sent, and a duration
    /// more, or until it asked for the end, a holder certainly held. It does so alone.
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
        // The grant came some time after it was asked for; that it was held so long is certain only
        // from renewals that were asked for later.
        let mut end = until(grant.sent, duration).max(grant.received);
        let mut cut = Instant::default() + Duration::MAX;
        for done in &self.done {
            match *done.what {
                What::Acquire {
                    lease_id,
                    duration: asked,
                    ..
                } if lease_id == grant.lease_id && done.sent >= grant.received => {
                    // Asking again shortens nothing.
                    duration = duration.max(asked);
                    end = end.max(until(done.sent, asked));
                }
                What::Renew {
                    lease_id,
                    duration: asked,
                } if lease_id == grant.lease_id => {
                    if let Some(asked) = asked.filter(|asked| *asked < duration) {
                        // It may be the last of those that were under way.
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
        for &(whose, since) in &self.perhaps_ended {
            if whose.is_none_or(|lease_id| lease_id == grant.lease_id) {
                cut = cut.min(since);
            }
        }
        (grant.received, end.min(cut), grant.epoch)
    }

    /// The rules of leases, followed in the order of revisions, would have allowed all of it.
    fn replay(&self) -> Result<(), Violation> {
        // When an answer was on its way is not known, so a renewal may seem late that was not.
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
                },
                What::Change { lease_id, proposed } => Operation::Change { lease_id, proposed },
                What::Describe { lease_id } => Operation::SetMetadata(lease_id, Metadata::new()),
                What::Break => Operation::Break(Some(Duration::ZERO)),
                What::Read => continue,
            };
            // What begins a term was replayed with it; asking again later renews.
            let is_renewal = done.what.goes_on();
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
                // For the same reason; and none of these makes a term last longer.
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

    fn begin(&self, record: &mut Record, grant: &Grant<'_>) -> Result<(), Violation> {
        let (earliest, latest) = (self.earliest(grant.revision), self.latest(grant.revision));
        let earliest = earliest.max(grant.sent);
        record.settle(latest);
        if let Some(held) = record.held(latest) {
            let lease_id = held.lease_id;
            let mut ends = self.perhaps_ended.iter();
            if ends.any(|&(whose, since)| whose.is_none_or(|id| id == lease_id) && since < latest) {
                let _ = apply(
                    record,
                    &Operation::Release(lease_id),
                    latest,
                    &Rules::NATIVE,
                );
            }
        }
        let request = Acquire {
            lease_id: grant.lease_id,
            holder: grant.holder.clone(),
            duration: grant.duration,
            lock_delay: Duration::ZERO,
            min_epoch: None,
            metadata: Metadata::new(),
        };
        let operation = Operation::Acquire(request, UnixMillis::new(grant.epoch));
        let two = |why| Violation::TwoHolders {
            epoch: grant.epoch,
            why,
        };
        let mut applied = apply(record, &operation, earliest, &Rules::NATIVE);
        if matches!(applied, Err(Rejection::Reserved { .. })) {
            // Until when it was kept for another is not known better.
            applied = apply(record, &operation, latest, &Rules::NATIVE);
        }
        match applied {
            Ok(applied) if applied.change == granted(grant.epoch) => Ok(()),
            Ok(applied) => Err(two(format!("{:?}", applied.change))),
            Err(error) => Err(two(error.to_string())),
        }
    }

    /// The revision came about after everything older was still asked for.
    fn earliest(&self, revision: u64) -> Instant {
        let older = self
            .done
            .iter()
            .take_while(|done| done.seen.revision < revision);
        older.map(|done| done.sent).max().unwrap_or_default()
    }

    /// The revision was there before anybody knew of it.
    fn latest(&self, revision: u64) -> Instant {
        let newer = self.done.iter().rev();
        let newer = newer.take_while(|done| done.seen.revision >= revision);
        newer.map(|done| done.received).min().unwrap_or_default()
    }
}

fn granted(epoch: u64) -> Change {
    Change::Granted(Epoch::new(epoch).unwrap_or(Epoch::MAX))
}

#[cfg(test)]
mod tests;

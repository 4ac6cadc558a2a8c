//! A lease that the candidates judge by themselves: a record in a service that stores it, and that
//! does not know when it expires. A `Lease` of Kubernetes is such a record.
//!
//! **Why two candidates never hold the record at once**, if the duration passes on all clocks at
//! the same rate:
//!
//! 1. **A write replaces the version that its writer has read.** The service refuses a write if the
//!    record has changed since. So each version has one successor.
//! 2. **The holder counts from before the send** of its last successful write
//!    ([`lease::candidate`](super::candidate)).
//! 3. **Another candidate counts from the arrival** of the first answer that showed this version
//!    ([`ObservedRecord::claim`]). The version was written before it was shown, so this is later
//!    than the time from which the holder counts. The times in the record are those of another
//!    clock, and decide nothing.
//! 4. When the duration has passed, the candidate writes. If the holder has renewed meanwhile, the
//!    service refuses the write, because of 1.
//! 5. **A renewal changes the record**, even if the clock of the holder stands still. Otherwise
//!    other candidates would not see it.
//!
//! These are the rules of the leader election in Kubernetes' `client-go`, so its candidates and
//! these may compete for one record.
//!
//! **Why epochs increase.** The record contains the last epoch, and each write of a new epoch
//! replaces the version from which the last one was read. Other programs count the changes of the
//! holder, and may remove the epoch. So the next epoch is greater than that count, than each epoch
//! that this candidate has seen, and than the wall clock of the service.

use alloc::string::{String, ToString};
use core::time::Duration;

use super::LeaseId;
use crate::{CandidateId, Epoch, Instant, UnixMillis};

/// The record of an election, as a service stores it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElectionRecord {
    /// The part that every program understands.
    pub holding: Holding,
    /// The last term of a candidate of this project. It has ended if another program holds the
    /// record.
    pub term: Option<RecordTerm>,
    /// The greatest epoch that was ever written.
    pub epoch: Option<Epoch>,
}

/// The holder and its times. Any change of it is a sign of life of the holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// The holder; `None` if the record is free.
    pub holder: Option<String>,
    /// The time without a change after which others may take the record, as its holder chose it.
    pub duration: Option<Duration>,
    /// The time at which the holder took the record, on its own clock. It is only compared.
    pub acquired: Option<String>,
    /// The time of the last renewal, on the holder's clock. It is only compared.
    pub renewed: Option<String>,
    /// How often the holder has changed, as far as all programs count that.
    pub transitions: u32,
}

/// A term of a candidate of this project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordTerm {
    /// The number of changes of the holder at the beginning of the term.
    pub transitions: u32,
    /// The lease id of the term. Two candidates with the same name have different lease ids.
    pub lease_id: LeaseId,
    /// The candidate.
    pub holder: CandidateId,
}

impl ElectionRecord {
    /// Returns the term that holds the record; `None` if the record is free, or if another program
    /// holds it. Other programs keep the term in the record when they take it.
    fn current(&self) -> Option<(&RecordTerm, Epoch)> {
        let (term, holding) = (self.term.as_ref()?, &self.holding);
        let is_current = holding.holder.as_deref() == Some(term.holder.as_str())
            && holding.transitions == term.transitions;
        is_current.then_some((term, self.epoch?))
    }

    /// Returns the leader and its epoch, if a candidate of this project holds the record.
    #[must_use]
    pub fn leader(&self) -> Option<(&CandidateId, Epoch)> {
        self.current().map(|(term, epoch)| (&term.holder, epoch))
    }

    /// Returns the epoch of the term with this lease id, if that term holds the record.
    #[must_use]
    pub fn epoch_of(&self, lease_id: LeaseId) -> Option<Epoch> {
        let (term, epoch) = self.current()?;
        (term.lease_id == lease_id).then_some(epoch)
    }

    /// Returns the record after a grant to this candidate, which replaces `previous`.
    #[must_use]
    pub fn granted(
        previous: Option<&Self>,
        (holder, lease_id): (&CandidateId, LeaseId),
        epoch: Epoch,
        duration: Duration,
        wall: &str,
    ) -> Self {
        // The first holder of a record changes nothing, so other programs count it as 0.
        let most = i32::MAX.unsigned_abs();
        let transitions =
            previous.map_or(0, |it| it.holding.transitions.saturating_add(1).min(most));
        let holder = holder.clone();
        Self {
            holding: Holding {
                holder: Some(holder.to_string()),
                duration: Some(duration),
                acquired: Some(wall.into()),
                renewed: Some(wall.into()),
                transitions,
            },
            term: Some(RecordTerm {
                transitions,
                lease_id,
                holder,
            }),
            epoch: Some(epoch),
        }
    }

    /// Returns the record after a renewal by its holder. `wall` must differ from all times that the
    /// holder has written (argument 5).
    #[must_use]
    pub fn renewed(&self, duration: Duration, wall: &str) -> Self {
        let mut record = self.clone();
        record.holding.duration = Some(duration);
        record.holding.renewed = Some(wall.into());
        record
    }

    /// Returns the record after a release by its holder. The epoch stays, so that the next one is
    /// greater. Programs that do not understand a record without a holder wait for one second.
    #[must_use]
    pub fn released(&self, wall: &str) -> Self {
        Self {
            holding: Holding {
                holder: None,
                duration: Some(Duration::from_secs(1)),
                acquired: Some(wall.into()),
                renewed: Some(wall.into()),
                transitions: self.holding.transitions,
            },
            term: None,
            epoch: self.epoch,
        }
    }
}

/// What a candidate may do with a record that it has just read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordClaim {
    /// Its own lease id holds the record, under this epoch: it may renew.
    Own(Epoch),
    /// It may take the record.
    Free,
    /// The record is held.
    Held,
}

/// The record as one process has seen it: since when it is unchanged.
#[derive(Clone, Debug, Default)]
pub struct ObservedRecord {
    /// The last version, and the arrival of the first answer that showed it.
    last: Option<(Holding, Instant)>,
    /// The greatest number that was ever seen as an epoch or as a count of holders.
    greatest: Option<Epoch>,
}

impl ObservedRecord {
    /// Notes an answer that arrived at `now`.
    pub fn observe(&mut self, now: Instant, record: &ElectionRecord) {
        let transitions = Epoch::new(record.holding.transitions.into());
        self.greatest = self.greatest.max(record.epoch).max(transitions);
        // Argument 3: later answers with the same version do not change the instant.
        if self
            .last
            .as_ref()
            .is_none_or(|(last, _)| *last != record.holding)
        {
            self.last = Some((record.holding.clone(), now));
        }
    }

    /// Notes an answer that arrived at `now`, and decides whether this lease id may hold the
    /// record. `duration` is for a record whose holder has not chosen a duration.
    ///
    /// A record that is missing was deleted, which does not stop its holder. So the last version
    /// counts until it expires.
    pub fn claim(
        &mut self,
        now: Instant,
        record: Option<&ElectionRecord>,
        lease_id: LeaseId,
        duration: Duration,
    ) -> RecordClaim {
        if let Some(record) = record {
            self.observe(now, record);
            if let Some(epoch) = record.epoch_of(lease_id) {
                return RecordClaim::Own(epoch);
            }
        }
        match self.is_held(now, duration) {
            true => RecordClaim::Held,
            false => RecordClaim::Free,
        }
    }

    /// Returns whether the last version has a holder and has not expired, as far as this process
    /// knows.
    #[must_use]
    pub fn is_held(&self, now: Instant, duration: Duration) -> bool {
        self.last.as_ref().is_some_and(|(holding, seen)| {
            holding.holder.is_some() && now.since(*seen) < holding.duration.unwrap_or(duration)
        })
    }

    /// Returns the epoch of a new term. `wall` is the clock of the service. Returns `None` if no
    /// epoch is left.
    #[must_use]
    pub fn next_epoch(&self, wall: UnixMillis) -> Option<Epoch> {
        Epoch::following(self.greatest, wall)
    }
}

#[cfg(test)]
mod tests;

//! Everything that is known about one lease.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::{LeaseDuration, LeaseId, Metadata};
use crate::{CandidateId, Epoch, Instant, UnixMillis};

/// How many lease ids of ended terms a record remembers. A store keeps a record in memory and
/// writes it whole, so this bounds both; at 32 an id outlives 31 further terms.
pub const RETIRED_LIMIT: usize = 32;

/// How long a lease id of an ended term is remembered, if not crowded out: longer than any request
/// survives in a network or a proxy.
pub(super) const RETIRED_FOR: Duration = Duration::from_secs(10 * 60);

/// One lease: its state and what is remembered of its past.
///
/// Only [`apply`](super::apply) and [`Record::settle`] change it. The instants in it belong to the
/// clock of the authority that holds it; [`Stored`](super::Stored) is the form without instants,
/// for a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub(super) phase: Phase,
    /// The current term's grant, or the last one's.
    pub(super) grant: Option<Grant>,
    pub(super) metadata: Option<Box<Metadata>>,
    /// Nobody is granted before this (lock delay).
    pub(super) barred_until: Option<Instant>,
    pub(super) reserved: Option<Box<Reservation>>,
    /// Ids of ended terms, oldest first.
    pub(super) retired: Vec<(LeaseId, Instant)>,
    /// Grants are numbered above this.
    pub(super) floor: Option<Epoch>,
}

/// Where a lease is; the public [`State`] is this one seen at a given now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Available,
    Leased {
        /// `None` if infinite.
        expires: Option<Instant>,
    },
    Breaking {
        until: Instant,
    },
    Broken,
    Expired,
}

/// A grant: who holds (or held last) under which number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The proof of holding.
    pub lease_id: LeaseId,
    /// Who holds.
    pub holder: CandidateId,
    /// The term's number.
    pub epoch: Epoch,
    /// When it was granted, for people.
    pub granted_at: UnixMillis,
    /// How long the lease lasts without a renewal.
    pub duration: LeaseDuration,
    /// For how long after an expiry or a break nobody is granted.
    pub lock_delay: Duration,
}

/// A lease handed over: until then only this candidate is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The only candidate to be granted.
    pub to: CandidateId,
    /// Until when.
    pub until: Instant,
}

/// A lease's state at a given now, as everybody may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody holds it: it never was, or it was released.
    Available,
    /// Somebody holds it.
    Leased,
    /// Somebody holds it still, and a break is under way.
    Breaking,
    /// A break ended it.
    Broken,
    /// Its holder did not renew in time.
    Expired,
}

/// How long a held lease has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// It ends after this, unless it is renewed.
    Time(Duration),
    /// It does not end by itself.
    Forever,
}

/// A term that time has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapse {
    /// The holder did not renew in time.
    Expired,
    /// A break's period is over.
    Broken,
}

impl Record {
    /// A lease that was never granted, whose first grant is numbered above `floor`.
    ///
    /// A store that has deleted leases gives the greatest epoch that it forgot with them: a lease
    /// made again under an old name goes on fencing off the old one's holders. See [`Record::deleted`]
    /// for what else is kept for a while.
    #[must_use]
    pub fn above(floor: Option<Epoch>) -> Self {
        Self {
            floor,
            ..Self::default()
        }
    }

    /// The same, whose next grant is numbered above `floor`, too.
    ///
    /// A store that was restored from a backup does not know of the grants after it: it gives an
    /// epoch that they can't have reached.
    #[must_use]
    pub fn numbered_above(self, floor: Option<Epoch>) -> Self {
        Self {
            floor: self.floor.max(floor),
            ..self
        }
    }

    /// What is left of the record when its lease is deleted at `now`: grants go on above its greatest epoch,
    /// and above `floor`, and the ids of its ended terms are not granted again while they are remembered. A
    /// late duplicate of an acquire may come after the deletion, too.
    ///
    /// Of what is left after an earlier deletion the same is left. [`deletable`](super::deletable) says
    /// whether a lease may be deleted.
    #[must_use]
    pub fn deleted(&self, floor: Option<Epoch>, now: Instant) -> Self {
        let mut left = Self::above(self.last_epoch().max(floor));
        left.retired.clone_from(&self.retired);
        left.forget_old_ids(now);
        left
    }

    /// What is left of a lease that was deleted with these ids of ended terms, oldest first, for an
    /// authority that starts at `now`: the ids are remembered from then on.
    #[must_use]
    pub fn restore_deleted(retired: Vec<LeaseId>, now: Instant) -> Self {
        Self {
            retired: retired.into_iter().map(|id| (id, now)).collect(),
            ..Self::default()
        }
    }

    /// When the last of the ids of ended terms may be forgotten; `None` if there are none.
    #[must_use]
    pub fn remembered_until(&self) -> Option<Instant> {
        let (_, since) = self.retired.last()?;
        Some(*since + RETIRED_FOR)
    }

    /// The state at `now`.
    #[must_use]
    pub fn state(&self, now: Instant) -> State {
        match self.phase {
            Phase::Available => State::Available,
            Phase::Leased {
                expires: Some(expires),
            } if now >= expires => State::Expired,
            Phase::Leased { .. } => State::Leased,
            Phase::Breaking { until } if now >= until => State::Broken,
            Phase::Breaking { .. } => State::Breaking,
            Phase::Broken => State::Broken,
            Phase::Expired => State::Expired,
        }
    }

    /// The grant, if somebody holds the lease at `now`.
    #[must_use]
    pub fn held(&self, now: Instant) -> Option<&Grant> {
        match self.state(now) {
            State::Leased | State::Breaking => self.grant.as_ref(),
            State::Available | State::Broken | State::Expired => None,
        }
    }

    /// How long the lease has left, if somebody holds it at `now`.
    #[must_use]
    pub fn remaining(&self, now: Instant) -> Option<Remaining> {
        self.held(now)?;
        match self.phase {
            Phase::Leased { expires: None } => Some(Remaining::Forever),
            Phase::Leased { expires: Some(end) } | Phase::Breaking { until: end } => {
                Some(Remaining::Time(end.since(now)))
            }
            Phase::Available | Phase::Broken | Phase::Expired => None,
        }
    }

    /// What the holder says about itself; empty unless somebody holds the lease at `now`.
    #[must_use]
    pub fn metadata(&self, now: Instant) -> Option<&Metadata> {
        self.held(now).and(self.metadata.as_deref())
    }

    /// The epoch that the next grant is numbered above: the greatest one ever granted here, or the
    /// floor, if that is greater.
    #[must_use]
    pub fn last_epoch(&self) -> Option<Epoch> {
        let granted = self.grant.as_ref().map(|grant| grant.epoch);
        granted.max(self.floor)
    }

    /// The current term's grant, or the last one's.
    #[must_use]
    pub const fn last_grant(&self) -> Option<&Grant> {
        self.grant.as_ref()
    }

    /// The next instant after `now` at which time alone changes who may be granted: the lease
    /// lapses, a lock delay or a reservation ends. Somebody who waits must be looked at then.
    #[must_use]
    pub fn next_lapse(&self, now: Instant) -> Option<Instant> {
        let end = match self.phase {
            Phase::Leased { expires } => expires,
            Phase::Breaking { until } => Some(until),
            Phase::Available | Phase::Broken | Phase::Expired => None,
        };
        let reserved = self.reserved.as_ref().map(|reservation| reservation.until);
        [end, self.barred_until, reserved]
            .into_iter()
            .flatten()
            .filter(|&instant| instant > now)
            .min()
    }

    /// Whether [`Record::settle`] would end a term at `now`.
    #[must_use]
    pub fn has_lapsed(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Leased { expires } => expires.is_some_and(|expires| now >= expires),
            Phase::Breaking { until } => now >= until,
            Phase::Available | Phase::Broken | Phase::Expired => false,
        }
    }

    /// Makes a term that time has ended by `now` an ended one. What it returns is a change like any
    /// other: durable before anybody hears of it, or a restart could show the term alive again.
    pub fn settle(&mut self, now: Instant) -> Option<Lapse> {
        let (ended_at, lapse) = match self.phase {
            Phase::Leased {
                expires: Some(expires),
            } if now >= expires => (expires, Lapse::Expired),
            Phase::Breaking { until } if now >= until => (until, Lapse::Broken),
            _ => return None,
        };
        self.end(ended_at, lapse, now);
        Some(lapse)
    }

    /// Ends the term as expired or broken, as of `ended_at`.
    pub(super) fn end(&mut self, ended_at: Instant, lapse: Lapse, now: Instant) {
        self.phase = match lapse {
            Lapse::Expired => Phase::Expired,
            Lapse::Broken => Phase::Broken,
        };
        let lock_delay = self
            .grant
            .as_ref()
            .map_or(Duration::ZERO, |grant| grant.lock_delay);
        self.barred_until = (!lock_delay.is_zero()).then(|| ended_at + lock_delay);
        self.retire_current(now);
    }

    /// The term is over: its lease id must not be granted again.
    pub(super) fn retire_current(&mut self, now: Instant) {
        if let Some(grant) = &self.grant {
            let lease_id = grant.lease_id;
            self.retire(lease_id, now);
        }
    }

    pub(super) fn retire(&mut self, lease_id: LeaseId, now: Instant) {
        self.forget_old_ids(now);
        self.retired.retain(|&(id, _)| id != lease_id);
        if self.retired.len() == RETIRED_LIMIT {
            self.retired.remove(0);
        }
        self.retired.push((lease_id, now));
    }

    fn forget_old_ids(&mut self, now: Instant) {
        self.retired
            .retain(|&(_, since)| now.since(since) < RETIRED_FOR);
    }

    /// Lease ids of ended terms, oldest first, as far as they are remembered.
    pub fn retired(&self) -> impl Iterator<Item = LeaseId> + '_ {
        self.retired.iter().map(|&(id, _)| id)
    }

    pub(super) fn is_retired(&self, lease_id: LeaseId) -> bool {
        self.retired.iter().any(|&(id, _)| id == lease_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Acquire, Operation, Rejection, Rules, apply, deletable};

    fn acquire(record: &mut Record, now: Instant) {
        let request = Acquire {
            lease_id: LeaseId::from_random_bits(0, 1),
            holder: "a".parse().unwrap(),
            duration: LeaseDuration::Fixed(Duration::from_secs(15)),
            lock_delay: Duration::from_secs(5),
            min_epoch: None,
            metadata: Metadata::new(),
        };
        let operation = Operation::Acquire(request, UnixMillis::new(0));
        apply(record, &operation, now, &Rules::NATIVE).unwrap();
    }

    #[test]
    fn a_record_above_a_floor_is_first_granted_above_it() {
        let floor = Epoch::new(41);
        let mut record = Record::above(floor);
        assert_eq!((record.last_epoch(), record.last_grant()), (floor, None));
        acquire(&mut record, Instant::default());
        assert_eq!(record.last_epoch(), Epoch::new(42));
    }

    #[test]
    fn a_lease_may_be_forgotten_once_nothing_would_be_forgotten_with_it() {
        let mut record = Record::default();
        let at = |secs| Instant::default() + Duration::from_secs(secs);
        acquire(&mut record, at(0));
        assert!(!record.has_lapsed(at(14)) && record.has_lapsed(at(15)));
        let held = deletable(&record, at(14));
        assert!(matches!(held, Err(Rejection::Held { .. })));
        record.settle(at(15));
        assert!(!record.has_lapsed(at(15)));
        let barred = deletable(&record, at(19));
        assert!(matches!(barred, Err(Rejection::LockDelay { .. })));
        assert_eq!(deletable(&record, at(20)), Ok(()));
    }

    #[test]
    fn a_deletion_keeps_the_ids_of_ended_terms_for_ten_minutes_and_nothing_else() {
        let mut record = Record::default();
        let at = |secs| Instant::default() + Duration::from_secs(secs);
        acquire(&mut record, at(0));
        record.settle(at(15));
        let last = record.last_epoch();
        let deleted = record.deleted(None, at(20));
        assert_eq!(deleted.last_epoch(), last);
        assert_eq!(deleted.last_grant(), None);
        assert_eq!(deleted.state(at(20)), State::Available);
        assert_eq!(deleted.remembered_until(), Some(at(15 + 600)));
        let id = LeaseId::from_random_bits(0, 1);
        assert!(deleted.is_retired(id));
        // Also if it is asked about again and again.
        let again = deleted.deleted(Epoch::new(9_000), at(614));
        assert!(again.is_retired(id) && again.last_epoch() == Epoch::new(9_000));
        assert_eq!(deleted.deleted(None, at(615)), Record::above(last));
    }
}

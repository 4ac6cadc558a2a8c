//! The state of one lease.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::{LeaseDuration, LeaseId, Metadata, Owner, WithoutStore};
use crate::{CandidateId, Epoch, Instant, UnixMillis};

/// The number of lease ids of ended terms that a record keeps. The limit bounds memory and the size
/// of each write, because a store keeps the record in memory and writes it as a whole. With 32, an
/// id outlives 31 further terms.
pub const RETIRED_LIMIT: usize = 32;

/// How long a record keeps the lease id of an ended term, unless newer ids displace it. It is
/// longer than a request survives in a network or a proxy.
pub(super) const RETIRED_FOR: Duration = Duration::from_secs(10 * 60);

/// One lease: its state and the needed part of its history.
///
/// Only [`apply`](super::apply) and [`Record::settle`] change it. Its instants belong to the clock
/// of the authority that owns it. [`Stored`](super::Stored) is the form on disk, without instants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    pub(super) phase: Phase,
    /// The grant of the current term, or of the last one.
    pub(super) grant: Option<Grant>,
    /// `None` if all of it is empty, which is the common case.
    pub(super) rare: Option<Box<Rare>>,
}

/// The parts that few records have. A store has very many records, so they are behind one pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rare {
    pub(super) metadata: Option<Box<Metadata>>,
    pub(super) reserved: Option<Box<Reservation>>,
    /// Ids of ended terms, oldest first. Without spare capacity, because this list changes only with
    /// a term.
    retired: Vec<(LeaseId, Instant)>,
    /// Epochs of future grants are greater than this. Zero if there is no such bound: every epoch is
    /// greater than zero.
    floor: u64,
}

/// The state of a lease at the last settle. The public [`State`] follows from it and `now`.
///
/// After a term that ended by time there is no grant before the end of the lock delay,
/// `barred_until`. Without a lock delay it is the origin of the clock, so equal states stay equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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
    Broken {
        barred_until: Instant,
    },
    Expired {
        barred_until: Instant,
    },
}

impl Phase {
    /// Returns the phase after the term of this grant ended by time, at `ended_at`.
    pub(super) fn lapsed(lapse: Lapse, grant: Option<&Grant>, ended_at: Instant) -> Self {
        let barred_until = match grant.map(|grant| grant.lock_delay) {
            Some(delay) if !delay.is_zero() => ended_at + delay,
            _ => Instant::default(),
        };
        match lapse {
            Lapse::Expired => Self::Expired { barred_until },
            Lapse::Broken => Self::Broken { barred_until },
        }
    }

    /// Returns the end of the lock delay, if there may be one.
    pub(super) const fn barred_until(self) -> Option<Instant> {
        match self {
            Self::Broken { barred_until } | Self::Expired { barred_until } => Some(barred_until),
            Self::Available | Self::Leased { .. } | Self::Breaking { .. } => None,
        }
    }

    /// Returns the end of the term, if it has not ended yet and is not infinite.
    pub(super) const fn end(self) -> Option<Instant> {
        match self {
            Self::Leased { expires } => expires,
            Self::Breaking { until } => Some(until),
            Self::Available | Self::Broken { .. } | Self::Expired { .. } => None,
        }
    }
}

/// The grant of a term.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The secret that proves the ownership of the lease.
    pub lease_id: LeaseId,
    /// The candidate that holds the lease, or held it last.
    pub holder: CandidateId,
    /// The principal that acquired the lease. `None` if the store had no access control at that
    /// time: the lease id is then the only proof until the term ends.
    pub owner: Option<Owner>,
    /// The term's epoch.
    pub epoch: Epoch,
    /// The wall-clock time of the grant, for display.
    pub granted_at: UnixMillis,
    /// The time until the lease expires without a renewal.
    pub duration: LeaseDuration,
    /// The time after an expiry or a break in which the lease is not granted.
    pub lock_delay: Duration,
    /// The periods in which the term was led without the store. Few terms have any, so they are
    /// behind a pointer.
    pub without_store: Option<Box<WithoutStore>>,
}

impl Grant {
    /// Returns whether a caller with this lease id and this principal owns the lease.
    ///
    /// Both must match: a lease id that another principal has learned (from a backup, a core dump,
    /// or the log of a proxy) counts as a wrong lease id.
    #[must_use]
    pub fn is_of(&self, lease_id: LeaseId, owner: Option<&Owner>) -> bool {
        self.lease_id == lease_id && (self.owner.is_none() || self.owner.as_ref() == owner)
    }
}

/// The reservation of a lease that was handed over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// The only candidate that may acquire the lease.
    pub to: CandidateId,
    /// The beginning of the reservation: from then on the lease can be granted.
    pub from: Instant,
    /// The length of the reservation.
    pub within: Duration,
}

impl Reservation {
    /// Returns the end of the reservation.
    #[must_use]
    pub fn until(&self) -> Instant {
        self.from + self.within
    }
}

/// The state of a lease at a given instant, as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The lease is free: it was never granted, or it was released.
    Available,
    /// A candidate holds the lease.
    Leased,
    /// A candidate still holds the lease, and a break is in progress.
    Breaking,
    /// A break ended the term.
    Broken,
    /// The holder did not renew in time.
    Expired,
}

/// The reason why the time of a term was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapse {
    /// The holder did not renew in time.
    Expired,
    /// The period of a break has passed.
    Broken,
}

impl Record {
    /// Creates a new lease whose first epoch is greater than `floor`.
    ///
    /// A store that has deleted leases passes their greatest epoch, so that a new lease under an
    /// old name still fences off the holders of the deleted one. [`Record::deleted`] describes the
    /// other data that is kept for some time.
    #[must_use]
    pub fn above(floor: Option<Epoch>) -> Self {
        Self::default().numbered_above(floor)
    }

    /// Returns the same record, except that its next epoch is also greater than `floor`.
    ///
    /// A store that was restored from a backup does not know the grants after the backup. It passes
    /// an epoch that those grants cannot have reached.
    #[must_use]
    pub fn numbered_above(mut self, floor: Option<Epoch>) -> Self {
        let floor = floor.map_or(0, Epoch::get);
        self.change_rare(|rare| rare.floor = rare.floor.max(floor));
        self
    }

    pub(super) fn change_rare(&mut self, change: impl FnOnce(&mut Rare)) {
        let mut rare = self.rare.take().map_or_else(Rare::default, |rare| *rare);
        change(&mut rare);
        self.rare = (rare != Rare::default()).then(|| rare.into());
    }

    /// Returns the rest of the record after its lease is deleted at `now`. New epochs are greater
    /// than its greatest epoch and than `floor`. The ids of its ended terms are still refused for
    /// some time, because a delayed copy of an acquire may arrive after the deletion.
    ///
    /// Deleting the rest again returns the same rest. [`deletable`](super::deletable) checks
    /// whether a lease may be deleted.
    #[must_use]
    pub fn deleted(&self, floor: Option<Epoch>, now: Instant) -> Self {
        let mut left = Self::above(self.last_epoch().max(floor));
        let retired = self.rare.iter().flat_map(|rare| &rare.retired);
        let kept = retired.filter(|(_, since)| !is_old(*since, now));
        left.change_retired(|retired| retired.extend(kept));
        left
    }

    /// Restores the rest of a deleted lease from the ids of its ended terms, oldest first, for an
    /// authority that starts at `now`. The ids count as retired at `now`.
    #[must_use]
    pub fn restore_deleted(retired: Vec<LeaseId>, now: Instant) -> Self {
        let mut left = Self::default();
        left.retire_all(retired, now);
        left
    }

    /// Returns the time at which the last id of an ended term may be dropped; `None` if there is
    /// none.
    #[must_use]
    pub fn remembered_until(&self) -> Option<Instant> {
        let (_, since) = self.rare.as_ref()?.retired.last()?;
        Some(*since + RETIRED_FOR)
    }

    /// Returns the state at `now`.
    #[must_use]
    pub fn state(&self, now: Instant) -> State {
        let is_over = self.has_lapsed(now);
        match self.phase {
            Phase::Available => State::Available,
            Phase::Leased { .. } if is_over => State::Expired,
            Phase::Leased { .. } => State::Leased,
            Phase::Breaking { .. } if is_over => State::Broken,
            Phase::Breaking { .. } => State::Breaking,
            Phase::Broken { .. } => State::Broken,
            Phase::Expired { .. } => State::Expired,
        }
    }

    /// Returns the current grant, if the lease is held at `now`.
    #[must_use]
    pub fn held(&self, now: Instant) -> Option<&Grant> {
        match self.state(now) {
            State::Leased | State::Breaking => self.grant.as_ref(),
            State::Available | State::Broken | State::Expired => None,
        }
    }

    /// Returns the remaining time of the lease, if it is held at `now`.
    #[must_use]
    pub fn remaining(&self, now: Instant) -> Option<LeaseDuration> {
        self.held(now)?;
        let end = self.phase.end();
        Some(end.map_or(LeaseDuration::Infinite, |end| {
            LeaseDuration::Fixed(end.since(now))
        }))
    }

    /// Returns the holder's metadata; `None` if it is empty, or if the lease is not held at `now`.
    #[must_use]
    pub fn metadata(&self, now: Instant) -> Option<&Metadata> {
        self.held(now)?;
        self.rare.as_ref()?.metadata.as_deref()
    }

    /// Returns the greater of the greatest epoch granted so far and the floor. The next epoch is
    /// greater than this one.
    #[must_use]
    pub fn last_epoch(&self) -> Option<Epoch> {
        let granted = self.grant.as_ref().map(|grant| grant.epoch);
        let floor = self.rare.as_ref().and_then(|rare| Epoch::new(rare.floor));
        granted.max(floor.filter(|floor| floor.get() > 0))
    }

    /// Returns the grant of the current term, or of the last one.
    #[must_use]
    pub const fn last_grant(&self) -> Option<&Grant> {
        self.grant.as_ref()
    }

    /// Returns the reservation of a lease that was handed over, until it ends.
    #[must_use]
    pub fn reserved(&self, now: Instant) -> Option<&Reservation> {
        let reserved = self.rare.as_ref()?.reserved.as_deref();
        reserved.filter(|reserved| now < reserved.until())
    }

    /// Returns the end of the lock delay that runs at `now`.
    #[must_use]
    pub fn lock_delay_until(&self, now: Instant) -> Option<Instant> {
        self.phase.barred_until().filter(|&until| now < until)
    }

    pub(super) fn set_metadata(&mut self, metadata: &Metadata) {
        let metadata = (!metadata.is_empty()).then(|| metadata.clone().into());
        self.change_rare(|rare| rare.metadata = metadata);
    }

    /// Reserves the lease for one candidate. The reservation begins when the lease can be granted:
    /// before that nobody could make use of it.
    pub(super) fn reserve(&mut self, to: CandidateId, within: Duration, now: Instant) {
        let from = self.free_at(now);
        self.change_rare(|rare| rare.reserved = Some(Reservation { to, from, within }.into()));
    }

    /// Moves the beginning of the reservation forward, because the term ends earlier than before.
    pub(super) fn bring_reservation_forward(&mut self, now: Instant) {
        let from = self.free_at(now);
        if let Some(reserved) = self.rare.as_mut().and_then(|it| it.reserved.as_mut()) {
            reserved.from = reserved.from.min(from);
        }
    }

    /// Returns the time from which on the lease can be granted if nothing else changes: the end of
    /// the term and of its lock delay. For an infinite lease it is `now`.
    fn free_at(&self, now: Instant) -> Instant {
        let lock_delay = self
            .grant
            .as_ref()
            .map_or(Duration::ZERO, |it| it.lock_delay);
        match self.phase.end() {
            Some(end) => end + lock_delay,
            None => self
                .phase
                .barred_until()
                .map_or(now, |until| until.max(now)),
        }
    }

    /// Returns the next instant after `now` at which time alone may allow a grant: the end of the
    /// term, of the lock delay, or of a reservation. The waiting queue must be polled then.
    #[must_use]
    pub fn next_lapse(&self, now: Instant) -> Option<Instant> {
        let end = self.phase.end();
        let rare = self.rare.as_ref();
        let reserved = rare.and_then(|rare| Some(rare.reserved.as_ref()?.until()));
        [end, self.phase.barred_until(), reserved]
            .into_iter()
            .flatten()
            .filter(|&instant| instant > now)
            .min()
    }

    /// Returns whether [`Record::settle`] would end a term at `now`.
    #[must_use]
    pub fn has_lapsed(&self, now: Instant) -> bool {
        self.lapsed_at(now).is_some()
    }

    /// Returns the time at which the term's time was over, if it is over at `now` and no step has
    /// ended the term yet.
    #[must_use]
    pub fn lapsed_at(&self, now: Instant) -> Option<Instant> {
        self.phase.end().filter(|&end| now >= end)
    }

    /// Ends the term if its time is over at `now`. This end is a change like any other: the store
    /// must write it before it reports the end to any client, or a restart could undo it.
    pub fn settle(&mut self, now: Instant) -> Option<Lapse> {
        let ended_at = self.lapsed_at(now)?;
        let lapse = match self.phase {
            Phase::Breaking { .. } => Lapse::Broken,
            _ => Lapse::Expired,
        };
        self.end(ended_at, lapse, now);
        Some(lapse)
    }

    /// Ends the term as expired or broken, as of `ended_at`.
    pub(super) fn end(&mut self, ended_at: Instant, lapse: Lapse, now: Instant) {
        self.phase = Phase::lapsed(lapse, self.grant.as_ref(), ended_at);
        self.retire_current(now);
    }

    /// Retires the lease id of the ended term: it must not be granted again.
    pub(super) fn retire_current(&mut self, now: Instant) {
        if let Some(grant) = &self.grant {
            let lease_id = grant.lease_id;
            self.retire(lease_id, now);
        }
    }

    pub(super) fn retire(&mut self, lease_id: LeaseId, now: Instant) {
        self.change_retired(|retired| {
            retired.retain(|&(id, since)| id != lease_id && !is_old(since, now));
            if retired.len() == RETIRED_LIMIT {
                retired.remove(0);
            }
            retired.push((lease_id, now));
        });
    }

    /// Removes this lease id from the ids of ended terms: it holds the lease again.
    pub(super) fn unretire(&mut self, lease_id: LeaseId) {
        if self.is_retired(lease_id) {
            self.change_retired(|retired| retired.retain(|&(id, _)| id != lease_id));
        }
    }

    /// Adds these ids of ended terms, oldest first, as retired at `now`.
    pub(super) fn retire_all(&mut self, ids: Vec<LeaseId>, now: Instant) {
        self.change_retired(|retired| retired.extend(ids.into_iter().map(|id| (id, now))));
    }

    fn change_retired(&mut self, change: impl FnOnce(&mut Vec<(LeaseId, Instant)>)) {
        self.change_rare(|rare| {
            change(&mut rare.retired);
            rare.retired.shrink_to_fit();
        });
    }

    /// Returns the lease ids of ended terms that are still kept, oldest first.
    pub fn retired(&self) -> impl Iterator<Item = LeaseId> + '_ {
        let retired = self.rare.iter().flat_map(|rare| &rare.retired);
        retired.map(|&(id, _)| id)
    }

    pub(super) fn is_retired(&self, lease_id: LeaseId) -> bool {
        self.retired().any(|id| id == lease_id)
    }
}

/// Returns whether an id that was retired at `since` may be forgotten.
fn is_old(since: Instant, now: Instant) -> bool {
    now.since(since) >= RETIRED_FOR
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
            by_operator: false,
            metadata: Metadata::new(),
        };
        let operation = Operation::Acquire(request, UnixMillis::new(0));
        apply(record, &operation, now, &Rules::NATIVE).unwrap();
    }

    #[test]
    fn the_first_epoch_is_greater_than_the_floor() {
        let floor = Epoch::new(41);
        let mut record = Record::above(floor);
        assert_eq!((record.last_epoch(), record.last_grant()), (floor, None));
        acquire(&mut record, Instant::default());
        assert_eq!(record.last_epoch(), Epoch::new(42));
    }

    #[test]
    fn a_lease_may_be_deleted_once_its_lock_delay_and_reservation_are_over() {
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
    fn a_deletion_keeps_only_the_ids_of_ended_terms_and_for_ten_minutes() {
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
        // The result is the same after further deletions.
        let again = deleted.deleted(Epoch::new(9_000), at(614));
        assert!(again.is_retired(id) && again.last_epoch() == Epoch::new(9_000));
        assert_eq!(deleted.deleted(None, at(615)), Record::above(last));
    }
}

//! The waiting queue of a lease.

use alloc::collections::BTreeMap;
use core::time::Duration;

use super::{Acquire, LeaseId, Owner, RequestNumber};
use crate::{CandidateId, Instant};

/// The priority of a waiting request. Lower numbers go first.
pub type Priority = u32;

/// How long the place of a request that has ended without a grant is kept for the next request
/// under its lease id. A candidate asks again after a round trip, and after a failure within a few
/// seconds.
pub const PLACE_KEPT_FOR: Duration = Duration::from_secs(10);

/// The maximum number of kept places of a lease: as many requests wait for a lease of a store by
/// default, and a proxy may cut all of them at once. Places beyond it are not kept.
const KEPT_LIMIT: usize = 10_000;

/// The requests that wait for one lease, ordered by priority and then by arrival.
///
/// `T` is the caller's handle for the reply. Each lease id waits at most once: a repeated request
/// replaces `T` and keeps the position, because the client has dropped the earlier request. It also
/// keeps the position if the earlier request has ended a short time ago.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Queue<T> {
    /// The waiting request that was granted last, until the next change of the lease.
    pub(super) unconfirmed: Option<RequestNumber>,
    pub(super) waiting: BTreeMap<Position, Waiting<T>>,
    pub(super) positions: BTreeMap<Key, Position>,
    /// The places of requests that have ended. They bar nobody from a grant.
    kept: BTreeMap<Key, KeptPlace>,
    arrivals: u64,
}

/// Identifies a candidate that waits.
type Key = (LeaseId, Option<Owner>);

/// The place of a request that has ended without a grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct KeptPlace {
    position: Position,
    since: Instant,
    holder: CandidateId,
    until: Instant,
}

/// The priority, and then the order of arrival.
type Position = (Priority, u64);

/// A waiting request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiting<T> {
    /// Identifies the request.
    pub number: RequestNumber,
    /// The acquire to apply when the lease is free.
    pub request: Acquire,
    /// The principal that sent the request, if the store has access control.
    pub owner: Option<Owner>,
    /// The time at which the request arrives. While it waits: the time since which its candidate
    /// has waited, also by earlier requests.
    pub since: Instant,
    /// The caller's handle for the reply.
    pub reply_to: T,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            unconfirmed: None,
            waiting: BTreeMap::new(),
            positions: BTreeMap::new(),
            kept: BTreeMap::new(),
            arrivals: 0,
        }
    }
}

impl<T> Waiting<T> {
    fn key(&self) -> Key {
        (self.request.lease_id, self.owner.clone())
    }
}

impl<T> Queue<T> {
    /// Adds a request behind all requests of its priority. Returns the request that it replaces, if
    /// the lease id is already waiting. Its position stays the same if the priority does, also after
    /// a request under this lease id that has ended a short time ago.
    pub(super) fn join(
        &mut self,
        priority: Priority,
        mut waiting: Waiting<T>,
    ) -> Option<Waiting<T>> {
        let (key, now) = (waiting.key(), waiting.since);
        let kept = self.kept.remove(&key).filter(|kept| now < kept.until);
        let replaced = self.positions.get(&key).copied();
        let earlier =
            replaced.and_then(|position| Some((position, self.waiting.get(&position)?.since)));
        let earlier = earlier.or_else(|| kept.map(|kept| (kept.position, kept.since)));
        if let Some((_, since)) = earlier {
            waiting.since = since;
        }
        let position = match earlier {
            Some((position, _)) if position.0 == priority => position,
            _ => {
                self.arrivals += 1;
                (priority, self.arrivals)
            }
        };
        let old = replaced.and_then(|position| self.waiting.remove(&position));
        self.waiting.insert(position, waiting);
        self.positions.insert(key, position);
        old
    }

    /// Removes and returns the first request for which `may_go` returns `true`.
    pub(super) fn take_first(
        &mut self,
        mut may_go: impl FnMut(&Waiting<T>) -> bool,
    ) -> Option<Waiting<T>> {
        let (&position, _) = self.waiting.iter().find(|(_, waiting)| may_go(waiting))?;
        let taken = self.waiting.remove(&position)?;
        self.positions.remove(&taken.key());
        Some(taken)
    }

    /// Removes a request that waits under `lease_id`, if `gone` returns `true` for it, and keeps its
    /// place.
    pub(super) fn leave(
        &mut self,
        lease_id: LeaseId,
        now: Instant,
        gone: impl Fn(&Waiting<T>) -> bool,
    ) -> Option<Waiting<T>> {
        // Requests of several principals may wait under one lease id.
        let same_id = self.positions.range((lease_id, None)..);
        let mut same_id = same_id.take_while(|((id, _), _)| *id == lease_id);
        let is_gone = |position| self.waiting.get(position).is_some_and(&gone);
        let (_, &position) = same_id.find(|(_, position)| is_gone(*position))?;
        let left = self.waiting.remove(&position)?;
        let key = left.key();
        self.positions.remove(&key);
        if self.kept.len() < KEPT_LIMIT {
            let place = KeptPlace {
                position,
                since: left.since,
                holder: left.request.holder.clone(),
                until: now + PLACE_KEPT_FOR,
            };
            self.kept.insert(key, place);
        }
        Some(left)
    }

    /// Forgets the places whose time is over. Returns the time at which the next one is over.
    pub(super) fn forget_places(&mut self, now: Instant) -> Option<Instant> {
        self.kept.retain(|_, kept| now < kept.until);
        self.kept.values().map(|kept| kept.until).min()
    }

    /// Returns whether a request of this candidate waits, or its place is kept.
    pub(super) fn has(&self, candidate: &CandidateId, now: Instant) -> bool {
        let mut waiting = self.waiting.values();
        let mut kept = self.kept.values().filter(|kept| now < kept.until);
        waiting.any(|waiting| waiting.request.holder == *candidate)
            || kept.any(|kept| kept.holder == *candidate)
    }

    /// Removes every request for which `gone` returns `true`.
    pub(super) fn drop_where(&mut self, mut gone: impl FnMut(&Waiting<T>) -> bool) {
        let positions = &mut self.positions;
        self.waiting.retain(|_, waiting| {
            let stays = !gone(waiting);
            if !stays {
                positions.remove(&waiting.key());
            }
            stays
        });
    }

    /// Returns the request of this principal that waits under `lease_id`.
    pub(super) fn find(&self, lease_id: LeaseId, owner: Option<&Owner>) -> Option<&Waiting<T>> {
        let position = self.positions.get(&(lease_id, owner.cloned()))?;
        self.waiting.get(position)
    }

    /// Returns whether no request waits, no place is kept, and no grant can be given back.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.kept.is_empty() && self.unconfirmed.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{LeaseDuration, Metadata};
    use alloc::vec::Vec;
    use core::time::Duration;

    fn waiting(id: u64, reply_to: &'static str) -> Waiting<&'static str> {
        let request = Acquire {
            lease_id: LeaseId::from_random_bits(0, id),
            holder: "a".parse().unwrap(),
            duration: LeaseDuration::Infinite,
            lock_delay: Duration::ZERO,
            min_epoch: None,
            by_operator: false,
            metadata: Metadata::new(),
        };
        Waiting {
            number: id,
            request,
            owner: None,
            since: Instant::default(),
            reply_to,
        }
    }

    fn at(secs: u64) -> Instant {
        Instant::default() + Duration::from_secs(secs)
    }

    fn drain(mut queue: Queue<&'static str>) -> Vec<&'static str> {
        core::iter::from_fn(|| queue.take_first(|_| true))
            .map(|waiting| waiting.reply_to)
            .collect()
    }

    #[test]
    fn lower_priority_numbers_go_first_and_equal_ones_in_order_of_arrival() {
        let mut queue = Queue::default();
        queue.join(100, waiting(1, "first"));
        queue.join(100, waiting(2, "second"));
        queue.join(7, waiting(3, "preferred"));
        assert_eq!(queue.waiting.len(), 3);
        assert_eq!(drain(queue), ["preferred", "first", "second"]);
    }

    #[test]
    fn a_repeated_request_keeps_its_position_and_replaces_the_reply_handle() {
        let mut queue = Queue::default();
        queue.join(100, waiting(1, "lost"));
        queue.join(100, waiting(2, "second"));
        let replaced = queue.join(100, waiting(1, "again")).unwrap();
        assert_eq!(replaced.reply_to, "lost");
        assert_eq!(drain(queue), ["again", "second"]);
    }

    #[test]
    fn a_repeated_request_with_another_priority_moves() {
        let mut queue = Queue::default();
        queue.join(100, waiting(1, "first"));
        queue.join(100, waiting(2, "second"));
        queue.join(200, waiting(1, "later"));
        assert_eq!(drain(queue), ["second", "later"]);
    }

    #[test]
    fn a_request_that_may_not_go_is_skipped_and_keeps_its_position() {
        let mut queue = Queue::default();
        queue.join(100, waiting(1, "first"));
        queue.join(100, waiting(2, "second"));
        let taken = queue
            .take_first(|waiting| waiting.reply_to == "second")
            .unwrap();
        assert_eq!(taken.reply_to, "second");
        queue.drop_where(|waiting| waiting.reply_to == "first");
        assert!(queue.is_idle());
    }

    #[test]
    fn a_replaced_request_cannot_remove_the_request_that_replaced_it() {
        let mut queue = Queue::default();
        queue.join(100, waiting(1, "lost"));
        queue.join(100, waiting(1, "again"));
        let id = LeaseId::from_random_bits(0, 1);
        assert!(
            queue
                .leave(id, at(0), |waiting| waiting.reply_to == "lost")
                .is_none()
        );
        assert!(
            queue
                .leave(id, at(0), |waiting| waiting.reply_to == "again")
                .is_some()
        );
        assert!(queue.waiting.is_empty() && queue.leave(id, at(0), |_| true).is_none());
        assert_eq!(queue.forget_places(at(9)), Some(at(10)));
        assert_eq!(queue.forget_places(at(10)), None);
        assert!(queue.is_idle());
    }

    /// Lets a candidate wait from 0 s to 5 s, before another one, and again from then on.
    fn wait_again(at_secs: u64, priority: Priority) -> (Queue<&'static str>, Instant) {
        let mut queue = Queue::default();
        queue.join(100, waiting(1, "first"));
        queue.join(100, waiting(2, "second"));
        let id = LeaseId::from_random_bits(0, 1);
        queue.leave(id, at(5), |_| true).unwrap();
        let again = Waiting {
            since: at(at_secs),
            ..waiting(1, "again")
        };
        assert!(queue.join(priority, again).is_none());
        let since = queue.find(id, None).unwrap().since;
        (queue, since)
    }

    #[test]
    fn a_request_within_ten_seconds_after_the_last_one_has_its_place_and_its_beginning() {
        for secs in [5, 14] {
            let (queue, since) = wait_again(secs, 100);
            assert_eq!(since, at(0));
            assert_eq!(drain(queue), ["again", "second"]);
        }
        let (queue, since) = wait_again(15, 100);
        assert_eq!(since, at(15));
        assert_eq!(drain(queue), ["second", "again"]);
        // Another priority has other places.
        let (queue, _) = wait_again(5, 101);
        assert_eq!(drain(queue), ["second", "again"]);
    }

    #[test]
    fn a_kept_place_bars_nobody_and_its_candidate_counts_as_one_that_waits() {
        let mut queue = Queue::default();
        queue.join(100, waiting(1, "first"));
        let id = LeaseId::from_random_bits(0, 1);
        queue.leave(id, at(0), |_| true).unwrap();
        let a = "a".parse().unwrap();
        assert!(queue.has(&a, at(9)) && !queue.has(&a, at(10)));
        assert!(!queue.has(&"b".parse().unwrap(), at(0)));
        assert!(queue.take_first(|_| true).is_none());
        queue.join(100, waiting(2, "second"));
        assert_eq!(queue.take_first(|_| true).unwrap().reply_to, "second");
    }

    #[test]
    fn the_number_of_kept_places_is_limited() {
        let mut queue = Queue::default();
        let leave = |number| {
            queue.join(100, waiting(number, "one"));
            let id = LeaseId::from_random_bits(0, number);
            queue.leave(id, at(0), |_| true).unwrap();
            queue.kept.len()
        };
        let counts = (0..=KEPT_LIMIT as u64).map(leave);
        assert_eq!(counts.max(), Some(KEPT_LIMIT));
    }
}

//! The waiting queue of a lease.

use alloc::collections::BTreeMap;

use super::{Acquire, LeaseId, Owner, RequestNumber};

/// The priority of a waiting request. Lower numbers go first.
pub type Priority = u32;

/// The requests that wait for one lease, ordered by priority and then by arrival.
///
/// `T` is the caller's handle for the reply. Each lease id waits at most once: a repeated request
/// replaces `T` and keeps the position, because the client has dropped the earlier request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Queue<T> {
    /// The waiting request that was granted last, until the next change of the lease.
    pub(super) unconfirmed: Option<RequestNumber>,
    pub(super) waiting: BTreeMap<Position, Waiting<T>>,
    pub(super) positions: BTreeMap<(LeaseId, Option<Owner>), Position>,
    arrivals: u64,
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
    /// The caller's handle for the reply.
    pub reply_to: T,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            unconfirmed: None,
            waiting: BTreeMap::new(),
            positions: BTreeMap::new(),
            arrivals: 0,
        }
    }
}

impl<T> Waiting<T> {
    fn key(&self) -> (LeaseId, Option<Owner>) {
        (self.request.lease_id, self.owner.clone())
    }
}

impl<T> Queue<T> {
    /// Adds a request behind all requests of its priority. Returns the request that it replaces, if
    /// the lease id is already waiting. Its position stays the same if the priority does.
    pub(super) fn join(&mut self, priority: Priority, waiting: Waiting<T>) -> Option<Waiting<T>> {
        let key = waiting.key();
        let replaced = self.positions.get(&key).copied();
        let position = match replaced {
            Some(position) if position.0 == priority => position,
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

    /// Removes a request that waits under `lease_id`, if `gone` returns `true` for it.
    pub(super) fn leave(
        &mut self,
        lease_id: LeaseId,
        gone: impl Fn(&Waiting<T>) -> bool,
    ) -> Option<Waiting<T>> {
        // Requests of several principals may wait under one lease id.
        let same_id = self.positions.range((lease_id, None)..);
        let mut same_id = same_id.take_while(|((id, _), _)| *id == lease_id);
        let is_gone = |position| self.waiting.get(position).is_some_and(&gone);
        let (_, &position) = same_id.find(|(_, position)| is_gone(*position))?;
        let left = self.waiting.remove(&position)?;
        self.positions.remove(&left.key());
        Some(left)
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

    /// Returns whether no request waits and no grant can be given back.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.unconfirmed.is_none()
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
            metadata: Metadata::new(),
        };
        Waiting {
            number: id,
            request,
            owner: None,
            reply_to,
        }
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
                .leave(id, |waiting| waiting.reply_to == "lost")
                .is_none()
        );
        assert!(
            queue
                .leave(id, |waiting| waiting.reply_to == "again")
                .is_some()
        );
        assert!(queue.is_idle() && queue.leave(id, |_| true).is_none());
    }
}

//! Who waits for a lease, and who is next.

use alloc::collections::BTreeMap;

use super::{Acquire, LeaseId, RequestNumber};

/// Who goes first among those who wait; lower goes first.
pub type Priority = u32;

/// Those who wait for one lease: by priority, then first come first served.
///
/// `T` is the way back to the request that waits. A lease id waits once: asking again keeps the
/// place and replaces `T`, because the client has given up the earlier request.
#[derive(Clone, Debug)]
pub(super) struct Queue<T> {
    waiting: BTreeMap<Place, Waiting<T>>,
    places: BTreeMap<LeaseId, Place>,
    arrivals: u64,
}

/// Priority, then number of arrival.
type Place = (Priority, u64);

/// A request that waits.
#[derive(Clone, Debug)]
pub struct Waiting<T> {
    /// Tells it apart from every other request.
    pub number: RequestNumber,
    /// What it asks for.
    pub request: Acquire,
    /// The way back to it.
    pub reply_to: T,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            places: BTreeMap::new(),
            arrivals: 0,
        }
    }
}

impl<T> Queue<T> {
    /// Adds one who waits, at the end of its priority. Returns whom it replaces, if the same lease
    /// id waits already; the place is kept while the priority stays the same.
    pub(super) fn join(&mut self, priority: Priority, waiting: Waiting<T>) -> Option<Waiting<T>> {
        let lease_id = waiting.request.lease_id;
        let replaced = self.places.get(&lease_id).copied();
        let place = match replaced {
            Some(place) if place.0 == priority => place,
            _ => {
                self.arrivals += 1;
                (priority, self.arrivals)
            }
        };
        let old = replaced.and_then(|place| self.waiting.remove(&place));
        self.waiting.insert(place, waiting);
        self.places.insert(lease_id, place);
        old
    }

    /// Takes out the first in order for whom `may_go` holds.
    pub(super) fn take_first(
        &mut self,
        mut may_go: impl FnMut(&Waiting<T>) -> bool,
    ) -> Option<Waiting<T>> {
        let (&place, _) = self.waiting.iter().find(|(_, waiting)| may_go(waiting))?;
        let taken = self.waiting.remove(&place)?;
        self.places.remove(&taken.request.lease_id);
        Some(taken)
    }

    /// Takes out the one who waits under `lease_id`, if `gone` holds: the request was given up.
    pub(super) fn leave(
        &mut self,
        lease_id: LeaseId,
        gone: impl FnOnce(&Waiting<T>) -> bool,
    ) -> Option<Waiting<T>> {
        let place = *self.places.get(&lease_id)?;
        if !self.waiting.get(&place).is_some_and(gone) {
            return None;
        }
        self.places.remove(&lease_id);
        self.waiting.remove(&place)
    }

    /// Takes out everyone for whom `gone` holds: their requests were given up.
    pub(super) fn drop_where(&mut self, mut gone: impl FnMut(&Waiting<T>) -> bool) {
        let places = &mut self.places;
        self.waiting.retain(|_, waiting| {
            let stays = !gone(waiting);
            if !stays {
                places.remove(&waiting.request.lease_id);
            }
            stays
        });
    }

    /// Whether somebody waits under `lease_id`.
    pub(super) fn has(&self, lease_id: LeaseId) -> bool {
        self.places.contains_key(&lease_id)
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
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
            reply_to,
        }
    }

    fn drain(mut queue: Queue<&'static str>) -> Vec<&'static str> {
        core::iter::from_fn(|| queue.take_first(|_| true))
            .map(|waiting| waiting.reply_to)
            .collect()
    }

    #[test]
    fn lower_priority_numbers_go_first_and_equals_in_order_of_arrival() {
        let mut queue = Queue::default();
        queue.join(100, waiting(1, "first"));
        queue.join(100, waiting(2, "second"));
        queue.join(7, waiting(3, "preferred"));
        assert_eq!(queue.len(), 3);
        assert_eq!(drain(queue), ["preferred", "first", "second"]);
    }

    #[test]
    fn asking_again_keeps_the_place_and_replaces_the_way_back() {
        let mut queue = Queue::default();
        queue.join(100, waiting(1, "lost"));
        queue.join(100, waiting(2, "second"));
        let replaced = queue.join(100, waiting(1, "again")).unwrap();
        assert_eq!(replaced.reply_to, "lost");
        assert_eq!(drain(queue), ["again", "second"]);
    }

    #[test]
    fn asking_again_with_another_priority_moves() {
        let mut queue = Queue::default();
        queue.join(100, waiting(1, "first"));
        queue.join(100, waiting(2, "second"));
        queue.join(200, waiting(1, "later"));
        assert_eq!(drain(queue), ["second", "later"]);
    }

    #[test]
    fn who_may_not_go_is_passed_over_and_keeps_the_place() {
        let mut queue = Queue::default();
        queue.join(100, waiting(1, "first"));
        queue.join(100, waiting(2, "second"));
        let taken = queue
            .take_first(|waiting| waiting.reply_to == "second")
            .unwrap();
        assert_eq!(taken.reply_to, "second");
        queue.drop_where(|waiting| waiting.reply_to == "first");
        assert!(queue.is_empty());
    }

    #[test]
    fn who_leaves_does_not_take_the_place_of_who_replaced_it() {
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
        assert!(queue.is_empty() && queue.leave(id, |_| true).is_none());
    }
}

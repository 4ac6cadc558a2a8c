//! The epochs that no later grant may have, although no lease has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_core::{Epoch, UnixMillis};

/// The maximum number of namespaces with a floor of their own. A cluster writes them with each
/// append. Only namespaces in which an epoch ahead of the clock was deleted have one, and only
/// until the clock has passed that epoch.
pub(crate) const NAMESPACE_FLOORS_LIMIT: usize = 1_000;

/// One day in milliseconds, the unit of epochs.
const DAY: u64 = 24 * 60 * 60 * 1000;

/// The distance by which epochs continue above those that a backup has: 32 days.
///
/// The lost store may have granted an epoch that a candidate requested, at most
/// [`Epoch::ASKED_AHEAD`] above the clock and the last epoch. Its clock may have been a day ahead of
/// this machine's clock, which is more than the error of a wrong time zone. The second day is
/// [`Floors::restored`]'s.
const EPOCHS_AHEAD: u64 = Epoch::ASKED_AHEAD + 2 * DAY;

/// The number of epochs that a restored store must have left to be useful: more than it grants in
/// years, and as many as a thousand further restores skip.
pub(crate) const EPOCHS_LEFT: u64 = 1000 * EPOCHS_AHEAD;

/// The lower bounds of epochs: no later grant has an epoch up to its floor.
///
/// A deletion and a lease that was restored bound only the leases of their namespace. So one
/// namespace can't move the epochs of another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Floors {
    /// The floors of all leases, also of existing ones: a restored store lacks later grants.
    restored: Floor,
    /// The floors of leases that are created later: the epochs of deleted leases.
    deleted: Floor,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Floor {
    /// The floor of every namespace.
    all: Option<Epoch>,
    /// The namespaces with a greater floor.
    namespaces: BTreeMap<Box<str>, Epoch>,
}

impl Floor {
    fn of(&self, namespace: &str) -> Option<Epoch> {
        self.namespaces.get(namespace).copied().max(self.all)
    }

    fn greatest(&self) -> Option<Epoch> {
        self.namespaces.values().copied().max().max(self.all)
    }
}

impl Floors {
    /// Returns the floor of the leases that exist in this namespace at the start of the store.
    pub(crate) fn of_existing(&self, namespace: &str) -> Option<Epoch> {
        self.restored.of(namespace)
    }

    /// Returns the floor of a lease that is created in this namespace.
    pub(crate) fn of_new(&self, namespace: &str) -> Option<Epoch> {
        self.restored.of(namespace).max(self.deleted.of(namespace))
    }

    /// Returns the floor of every namespace.
    pub(crate) fn of_all(&self) -> Option<Epoch> {
        self.restored.all.max(self.deleted.all)
    }

    /// Returns the greatest floor.
    pub(crate) fn greatest(&self) -> Option<Epoch> {
        self.restored.greatest().max(self.deleted.greatest())
    }

    /// Returns whether existing leases have floors.
    pub(crate) const fn have_restored(&self) -> bool {
        self.restored.all.is_some()
    }

    /// Raises the floor of a namespace after the deletion of a lease with this last epoch.
    pub(crate) fn raise(&mut self, namespace: &str, last: Option<Epoch>) {
        if let Some(last) = last
            && Some(last) > self.of_new(namespace)
        {
            self.deleted.namespaces.insert(namespace.into(), last);
        }
    }

    /// Merges the floors that the clock has passed into the floor of all namespaces. They move no
    /// epoch there, because epochs are at least the clock. They are kept for a clock that goes
    /// back.
    pub(crate) fn merge_passed(&mut self, wall: UnixMillis) {
        let Floor { all, namespaces } = &mut self.deleted;
        // A clock past the greatest epoch is not the source of epochs.
        let is_ahead = |epoch: Epoch| epoch.get() > wall.get() || wall.get() > Epoch::MAX.get();
        namespaces.retain(|_, epoch| {
            if !is_ahead(*epoch) {
                *all = (*all).max(Some(*epoch));
            }
            is_ahead(*epoch)
        });
    }

    /// Returns whether a lease with this last epoch may be deleted: its namespace has a floor, needs
    /// none, or there is room for one.
    pub(crate) fn have_room(&self, namespace: &str, last: Option<Epoch>, wall: UnixMillis) -> bool {
        let is_passed = |epoch: Epoch| epoch.get() <= wall.get();
        last <= self.of_new(namespace)
            || last.is_none_or(is_passed)
            || self.deleted.namespaces.contains_key(namespace)
            || self.deleted.namespaces.len() < NAMESPACE_FLOORS_LIMIT
    }

    /// Returns the floors of a store that is restored from a backup with these floors and these
    /// last epochs of leases, by namespace. They are above all epochs that the lost store can have
    /// granted. The error is an epoch above which too few epochs are left.
    pub(crate) fn restored<'a>(
        &'a self,
        last_epochs: impl Iterator<Item = (&'a str, Epoch)>,
        wall: UnixMillis,
    ) -> Result<Self, Epoch> {
        let base = self.of_all().map_or(0, Epoch::get).max(wall.get());
        let floors = [&self.restored, &self.deleted];
        let floors = floors.into_iter().flat_map(|floor| &floor.namespaces);
        let floors = floors.map(|(namespace, epoch)| (namespace.as_ref(), *epoch));
        let mut restored = Floor {
            all: Some(far_above(base)?),
            namespaces: BTreeMap::new(),
        };
        for (namespace, last) in floors.chain(last_epochs) {
            // Epochs are seldom more than a day ahead of the clock, or of an earlier restore. The
            // floor of all namespaces has that day to spare, so few namespaces have their own.
            if last.get() > base.saturating_add(DAY) {
                let floor = far_above(last.get())?;
                let of_namespace = restored.namespaces.entry(namespace.into()).or_insert(floor);
                *of_namespace = (*of_namespace).max(floor);
            }
        }
        let deleted = self.deleted.clone();
        Ok(Self { restored, deleted })
    }
}

/// Returns an epoch far above this one, or this one as an error if too few epochs are left.
fn far_above(epoch: u64) -> Result<Epoch, Epoch> {
    let floor = Epoch::new(epoch.saturating_add(EPOCHS_AHEAD));
    floor
        .filter(|floor| floor.get() <= Epoch::MAX.get() - EPOCHS_LEFT)
        .ok_or_else(|| Epoch::new(epoch).unwrap_or(Epoch::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(number: u64) -> Option<Epoch> {
        Epoch::new(number)
    }

    const NOW: UnixMillis = UnixMillis::new(1_000_000);

    #[test]
    fn a_deletion_raises_the_floor_of_its_namespace_alone() {
        let mut floors = Floors::default();
        floors.raise("a", epoch(2_000_000));
        floors.raise("a", epoch(1_500_000));
        floors.raise("b", epoch(900_000));
        floors.merge_passed(NOW);
        assert_eq!(floors.of_new("a"), epoch(2_000_000));
        assert_eq!(floors.of_new("b"), epoch(900_000));
        assert_eq!(floors.of_new("c"), epoch(900_000));
        // Existing leases know their own epochs.
        assert_eq!(floors.of_existing("a"), None);
    }

    #[test]
    fn a_floor_that_the_clock_has_passed_takes_no_room_and_still_counts() {
        let mut floors = Floors::default();
        for number in 0..NAMESPACE_FLOORS_LIMIT as u64 {
            let namespace = format!("ns-{number}");
            assert!(floors.have_room(&namespace, epoch(2_000_000 + number), NOW));
            floors.raise(&namespace, epoch(2_000_000 + number));
        }
        assert!(!floors.have_room("other", epoch(2_000_000), NOW));
        // These need no further room.
        assert!(floors.have_room("ns-1", epoch(3_000_000), NOW));
        assert!(floors.have_room("other", epoch(999_999), NOW));
        assert!(floors.have_room("other", None, NOW));
        floors.merge_passed(UnixMillis::new(u64::MAX));
        assert_eq!(floors.of_new("other"), None);
        floors.merge_passed(UnixMillis::new(2_000_000));
        assert!(floors.have_room("other", epoch(2_000_001), NOW));
        assert_eq!(floors.of_new("ns-0"), epoch(2_000_000));
        assert_eq!(floors.of_new("other"), epoch(2_000_000));
    }

    #[test]
    fn a_restored_store_is_above_all_that_the_lost_one_can_have_granted() {
        let mut floors = Floors::default();
        floors.raise("deleted", epoch(400 * DAY));
        let now = UnixMillis::new(100 * DAY);
        let last = |number| epoch(number * DAY).unwrap();
        let leases = [("near", last(101)), ("far", last(365)), ("far", last(300))];
        let restored = floors.restored(leases.into_iter(), now).unwrap();
        for (namespace, floor) in [
            ("near", 132),
            ("other", 132),
            ("far", 365 + 32),
            ("deleted", 400 + 32),
        ] {
            assert_eq!(restored.of_existing(namespace), epoch(floor * DAY));
            assert_eq!(restored.of_new(namespace), epoch(floor * DAY));
        }
        // A lost store whose clock was a day ahead, and a candidate that requested the most.
        for (namespace, last, wall) in [("near", 101, 101), ("far", 365, 101), ("deleted", 400, 0)]
        {
            let wall = UnixMillis::new(wall * DAY);
            let most = Epoch::most_asked_for(epoch(last * DAY), wall, false);
            assert!(restored.of_existing(namespace) > Some(most));
        }
        // Another restore at once: grants since the first one are close to its floors.
        let granted = [("near", epoch(132 * DAY + 9).unwrap())];
        let again = restored.restored(granted.into_iter(), now).unwrap();
        assert_eq!(again.of_existing("near"), epoch((132 + 32) * DAY));
        assert_eq!(again.restored.namespaces.len(), 2);

        let last = Epoch::MAX.get() - EPOCHS_LEFT;
        let used_up = [("far", epoch(last).unwrap())];
        let error = Floors::default().restored(used_up.into_iter(), now);
        assert_eq!(error.unwrap_err(), epoch(last).unwrap());
    }
}

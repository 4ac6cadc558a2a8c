//! The records of deleted leases.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_core::Instant;
use tenure_core::lease::Record;

use crate::model::{DELETED_LIMIT, LeaseKey};

/// The records of deleted leases. The lease ids of their ended terms must not be granted again yet.
/// Only the creation and the removal of a lease use these records.
#[derive(Debug, Default)]
pub(crate) struct Deleted(Mutex<Records>);

#[derive(Debug, Default)]
struct Records {
    by_key: HashMap<LeaseKey, (Place, Record)>,
    order: BTreeMap<Place, LeaseKey>,
    count: u64,
}

/// The time until which a record is remembered, and a unique number.
type Place = (Instant, u64);

impl Deleted {
    /// Stores the record of a deleted lease, if it has lease ids.
    pub(super) fn put(&self, key: &LeaseKey, record: Record) {
        let Some(until) = record.remembered_until() else {
            return;
        };
        let mut records = self.lock();
        records.take(key);
        if records.order.len() == DELETED_LIMIT {
            records
                .order
                .pop_first()
                .map(|(_, oldest)| records.by_key.remove(&oldest));
        }
        records.count += 1;
        let place = (until, records.count);
        records.order.insert(place, key.clone());
        records.by_key.insert(key.clone(), (place, record));
    }

    /// Removes and returns the record of a deleted lease.
    pub(super) fn take(&self, key: &LeaseKey) -> Option<Record> {
        self.lock().take(key)
    }

    /// Removes the records whose time is over at `now`.
    pub(crate) fn forget_old(&self, now: Instant) {
        let records = &mut *self.lock();
        while let Some(oldest) = records.order.first_entry()
            && oldest.key().0 <= now
        {
            records.by_key.remove(&oldest.remove());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Records {
    fn take(&mut self, key: &LeaseKey) -> Option<Record> {
        let (place, record) = self.by_key.remove(key)?;
        self.order.remove(&place);
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tenure_core::lease::LeaseId;

    fn record(secs: u64) -> Record {
        let at = Instant::default() + Duration::from_secs(secs);
        Record::restore_deleted(vec![LeaseId::from_random_bits(0, secs)], at)
    }

    fn key(number: usize) -> LeaseKey {
        LeaseKey::of_text(&format!("ns/{number}"))
    }

    #[test]
    fn records_are_removed_when_their_time_is_over_or_there_are_too_many() {
        let deleted = Deleted::default();
        deleted.put(&key(0), Record::default());
        assert_eq!(deleted.take(&key(0)), None);
        for number in 0..=DELETED_LIMIT {
            deleted.put(&key(number), record(number as u64));
        }
        assert_eq!(deleted.take(&key(0)), None);
        assert_eq!(deleted.take(&key(1)), Some(record(1)));
        assert_eq!(deleted.take(&key(1)), None);
        // A record that is stored again does not take another place.
        for _ in 0..3 {
            deleted.put(&key(2), record(9));
        }
        assert_eq!(deleted.lock().order.len(), DELETED_LIMIT - 1);
        let until = record(9).remembered_until().unwrap();
        deleted.forget_old(until);
        assert_eq!(deleted.take(&key(2)), None);
        assert_eq!(deleted.take(&key(9)), None);
        assert_eq!(deleted.take(&key(10)), Some(record(10)));
        let left = deleted.lock();
        assert_eq!(left.order.len(), left.by_key.len());
        assert_eq!(left.order.len(), DELETED_LIMIT - 10);
    }
}

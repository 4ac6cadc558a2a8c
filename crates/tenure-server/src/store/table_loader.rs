//! The table of a store that starts.
//!
//! One thread reads the leases from the disk, and another one puts them into the table. So a start
//! takes less time, and a lease is not in memory twice.

use std::collections::BTreeSet;
use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use tenure_core::lease::{Owner, Record, Stored};
use tenure_core::{Epoch, Instant};

use super::{Entry, Table};
use crate::engine::LoadedLease;
use crate::table::TableBuilder;
use crate::timer::Timer;

/// The number of leases that are passed to the other thread at once.
const CHUNK: usize = 1_024;

/// The number of chunks that may wait for the other thread.
const CHUNKS: usize = 4;

/// Collects the leases of a log while they are read.
#[derive(Debug)]
pub(super) struct TableLoader {
    chunk: Vec<LoadedLease>,
    full: SyncSender<Vec<LoadedLease>>,
    thread: JoinHandle<LoadedTable>,
}

/// A table with the leases of a log.
#[derive(Debug)]
pub(super) struct LoadedTable {
    pub(super) table: Table,
    /// The ends of its terms.
    pub(super) timer: Timer,
    /// The greatest epoch of its leases.
    pub(super) last_epoch: Option<Epoch>,
}

impl TableLoader {
    pub(super) fn start() -> io::Result<Self> {
        let (full, chunks) = sync_channel(CHUNKS);
        let thread = thread::Builder::new().name("tenure-load".into());
        Ok(Self {
            chunk: Vec::new(),
            full,
            thread: thread.spawn(move || load(chunks))?,
        })
    }

    /// Returns the table once it has all leases.
    pub(super) fn finish(mut self) -> LoadedTable {
        self.send();
        drop(self.full);
        self.thread
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn send(&mut self) {
        // The other thread ends early only by a panic, which `finish` reports.
        let _ = self.full.send(std::mem::take(&mut self.chunk));
    }
}

impl Extend<LoadedLease> for TableLoader {
    fn extend<I: IntoIterator<Item = LoadedLease>>(&mut self, leases: I) {
        for lease in leases {
            if self.chunk.capacity() == 0 {
                self.chunk.reserve_exact(CHUNK);
            }
            self.chunk.push(lease);
            if self.chunk.len() == CHUNK {
                self.send();
            }
        }
    }
}

fn load(chunks: Receiver<Vec<LoadedLease>>) -> LoadedTable {
    table_of(chunks.into_iter().flatten())
}

/// Creates a table with these leases. They count as renewed at the origin of the store's clock, so
/// that clock must start later.
pub(super) fn table_of(leases: impl IntoIterator<Item = LoadedLease>) -> LoadedTable {
    let (mut table, mut owners, mut last_epoch) = (TableBuilder::default(), BTreeSet::new(), None);
    let (mut due, now) = (Vec::new(), Instant::default());
    for (key, mut stored, revision) in leases {
        last_epoch = last_epoch.max(stored.grant.as_ref().map(|grant| grant.epoch));
        share_owner(&mut stored, &mut owners);
        let mut entry = Entry::new(Record::restore(stored, now), revision);
        if let Some(at) = entry.lease.record().next_lapse(now) {
            entry.armed = at;
            due.push((at, key.hash()));
        }
        table.add(key, entry);
    }
    LoadedTable {
        table: table.build(),
        timer: Timer::of(due),
        last_epoch,
    }
}

/// Makes leases of one principal share its name in memory.
fn share_owner(stored: &mut Stored, owners: &mut BTreeSet<Owner>) {
    let grant = stored.grant.as_mut();
    if let Some(owner) = grant.and_then(|grant| grant.owner.as_mut()) {
        match owners.get(owner) {
            Some(known) => *owner = known.clone(),
            None => drop(owners.insert(owner.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::UnixMillis;
    use tenure_core::lease::{Acquire, LeaseDuration, LeaseId, Operation, Rules, apply};

    use super::*;
    use crate::model::LeaseKey;

    /// Returns a lease whose last term has this epoch.
    fn stored(epoch: u64) -> Stored {
        let request = Acquire {
            lease_id: LeaseId::from_random_bits(0, 1),
            holder: "a".parse().unwrap(),
            duration: LeaseDuration::Infinite,
            lock_delay: std::time::Duration::ZERO,
            min_epoch: None,
            by_operator: false,
            metadata: tenure_core::lease::Metadata::new(),
        };
        let (mut record, now) = (Record::default(), Instant::default());
        let acquire = Operation::Acquire(request, UnixMillis::new(epoch));
        apply(&mut record, &acquire, now, &Rules::NATIVE).unwrap();
        record.store(now)
    }

    #[test]
    fn the_table_has_all_leases_however_many_chunks_they_fill() {
        for count in [0, 1, CHUNK, (CHUNKS + 2) * CHUNK + 1] {
            let mut loader = TableLoader::start().unwrap();
            let key = |number| LeaseKey::of_text(&format!("ns/{number}"));
            // The greatest epoch is not the last one.
            let epoch = |number| 1 + (number as u64 + 7) % count as u64;
            loader.extend((0..count).map(|number| {
                let stored = stored(epoch(number));
                (key(number), stored, number as u64)
            }));
            let LoadedTable {
                table, last_epoch, ..
            } = loader.finish();
            assert_eq!(table.total(), count);
            assert_eq!(last_epoch, Epoch::new(count as u64).filter(|_| count > 0));
            for number in 0..count {
                let key = key(number);
                let shard = table.lock(&key);
                assert_eq!(shard.get(&key).unwrap().revision, number as u64);
            }
        }
    }
}

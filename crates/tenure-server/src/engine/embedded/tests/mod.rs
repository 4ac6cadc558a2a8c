//! The database as an engine.

mod checkpoints;
mod documents;
mod slices;
mod terms;
mod transactions;

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::Epoch;
use tenure_core::lease::{LeaseId, Stored};

use super::backlog::BEGIN_AT;
use super::*;
use crate::engine::LeaseList;
use crate::engine::testing::{alone, batches, delete, end, write};
use crate::model::{DELETED_LIMIT, EPOCHS_LEFT, LeaseChange, LeaseKey, TermRecord};

/// The number of terms of a lease that the store remembers.
const MOST: usize = 3;

/// Opens the database. Its revisions are small, and the test decides when the tables are updated.
fn open(data_dir: &Path, max_history: usize) -> Result<(Loaded, Embedded), OpenError> {
    let mut log = super::open(data_dir, max_history)?;
    let loaded = log.start(0, LeaseList::new())?;
    log.backlog.max_age = Duration::MAX;
    Ok((loaded, log))
}

fn commit(engine: &mut Embedded, changes: &[LeaseChange]) -> Result<(), AppendError> {
    let sets: Vec<ChangeSet> = changes.iter().cloned().map(alone).collect();
    commit_sets(engine, &sets)
}

fn commit_sets(engine: &mut Embedded, sets: &[ChangeSet]) -> Result<(), AppendError> {
    let last = "SELECT coalesce((SELECT max(revision) FROM batches), (SELECT revision FROM meta))";
    let last = engine.connection.query_row(last, [], |row| row.get(0));
    let mut batch = Batch::default();
    batch.encode(last.unwrap(), sets);
    engine.append(&batch, sets)
}

/// Returns the number of batches in the log.
fn batch_count(engine: &Embedded) -> u32 {
    let count = "SELECT count(*) FROM batches";
    let count = engine.connection.query_row(count, [], |row| row.get(0));
    count.unwrap()
}

/// Returns the epochs of the terms of the lease of `write(1, _)`.
fn epochs(engine: &Embedded) -> Vec<u64> {
    let terms = engine.terms();
    let terms = terms.terms(&LeaseKey::of_text("ns/job-1"), Epoch::MAX, 1_000);
    terms.unwrap().iter().map(|term| term.epoch.get()).collect()
}

/// Sorts the loaded leases, because a start loads them in any order.
fn in_order(
    leases: impl IntoIterator<Item = (LeaseKey, Stored, u64)>,
) -> Vec<(LeaseKey, Stored, u64)> {
    let mut leases: Vec<_> = leases.into_iter().collect();
    leases.sort_by(|one, other| one.0.cmp(&other.0));
    leases
}

/// The leases, the floor, the terms of each lease, and the retired ids of deleted leases.
type Known = (
    Vec<(LeaseKey, Stored, u64)>,
    Option<Epoch>,
    Vec<Vec<TermRecord>>,
    Vec<(LeaseKey, Vec<LeaseId>)>,
);

/// Returns the terms of the first `leases` leases.
fn terms(engine: &Embedded, leases: u64) -> Vec<Vec<TermRecord>> {
    let terms_of = |of: u64| {
        let key = LeaseKey::of_text(&format!("ns/job-{of}"));
        engine.terms().terms(&key, Epoch::MAX, MOST).unwrap()
    };
    (1..=leases).map(terms_of).collect()
}

/// Returns the retired ids of deleted leases by name. For each name these are the ids of the last
/// deletion, unless the lease exists again.
fn left(loaded: &Loaded) -> Vec<(LeaseKey, Vec<LeaseId>)> {
    let mut left: BTreeMap<_, _> = loaded.deleted.iter().cloned().collect();
    for (key, ..) in &loaded.leases {
        left.remove(key);
    }
    left.into_iter().collect()
}

//! The application of batches to leases that were loaded from tables.
//!
//! **No change is lost.** An append is acknowledged when its batch is durable in the log. The
//! tables may be behind the log. A reader of the tables therefore applies the batches that the log
//! still contains, in their order. A log removes a batch only when the tables contain all changes
//! of that batch and of all batches before it. So for each lease the tables have all changes up to
//! some revision, and the remaining batches have all changes after it.
//!
//! **A change that is applied twice has no further effect.** The tables may already contain some
//! changes of the remaining batches, namely those up to the revision of the lease's row. Replay
//! skips these changes and the terms in them, because a lease and its terms are written together.
//!
//! - A change contains the whole lease, so the last change decides. Only the retired ids may be a
//!   delta. A delta names the revision of the lease that it follows. It is applied only to the list
//!   as of that revision: any other list is an error.
//! - A deletion removes the lease's row and terms. A lease may have no row for that reason, so
//!   replay skips changes before a deletion. If a lease was created later under the same name, the
//!   batches have all its changes.
//! - The epochs of a lease only grow. A term that is older than the last term in the table is
//!   therefore either in the table, or was forgotten as too old. The last term in the table may
//!   still change: the batches have all records of it since it was written to the table, and the
//!   first reason stays.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tenure_core::lease::Stored;

use super::{Batch, LoggedChange};
use crate::engine::{Loaded, LoadedLease};
use crate::model::{Content, LeaseKey};

/// The batches that follow the tables, while the leases of the tables are read.
#[derive(Debug)]
pub(in crate::engine) struct Replay {
    /// The changes of each batch.
    changes: Vec<Vec<LoggedChange>>,
    /// The revision of the last batch.
    revision: u64,
    /// The leases that the batches change.
    keys: HashSet<LeaseKey>,
    /// Those leases, as the tables have them.
    leases: Leases,
}

impl Replay {
    /// Decodes the batches that follow this revision of the tables.
    pub(in crate::engine) fn of(batches: &[Batch], after: u64) -> Result<Self, String> {
        let mut replay = Self {
            changes: Vec::with_capacity(batches.len()),
            revision: after,
            keys: HashSet::new(),
            leases: Leases::new(),
        };
        for batch in batches {
            if batch.previous != replay.revision {
                return Err(format!(
                    "the batch after revision {} is missing: the next one follows revision {}",
                    replay.revision, batch.previous
                ));
            }
            replay.revision = batch.revision;
            let changes = batch.changes()?;
            let keys = changes.iter().map(|change| change.key.clone());
            replay.keys.extend(keys);
            replay.changes.push(changes);
        }
        Ok(replay)
    }

    /// Takes a lease of the tables. Returns it if no batch changes it.
    pub(in crate::engine) fn pass(
        &mut self,
        lease: LoadedLease,
    ) -> Result<Option<LoadedLease>, String> {
        // The table may have a lease at a later revision than the table as a whole, but not at a
        // revision after the end of the log.
        if lease.2 > self.revision {
            return Err(format!(
                "the row of {:?} has revision {}, and the last revision is {}",
                lease.0.as_str(),
                lease.2,
                self.revision
            ));
        }
        if !self.keys.contains(&lease.0) {
            return Ok(Some(lease));
        }
        let (key, stored, revision) = lease;
        self.leases.insert(key, (stored.into(), revision));
        Ok(None)
    }

    /// Applies the batches to the leases that they change, and adds these to the loaded content.
    /// Returns, for each batch, the changes that the tables lack, with complete lists of retired
    /// ids.
    pub(in crate::engine) fn finish<L: Extend<LoadedLease>>(
        mut self,
        loaded: &mut Loaded<L>,
    ) -> Result<Vec<Vec<LoggedChange>>, String> {
        loaded.revision = self.revision;
        for change in self.changes.iter().flatten() {
            if let Content::Deleted(deleted) = &change.content {
                loaded.floors.raise(change.key.namespace(), deleted.last);
                if !deleted.retired.is_empty() {
                    let retired = deleted.retired.clone();
                    loaded.deleted.push((change.key.clone(), retired));
                }
            }
        }
        apply(&mut self.changes, &mut self.leases)?;
        let leases = self.leases.into_iter();
        let leases =
            leases.map(|(key, (stored, revision))| (key, Arc::unwrap_or_clone(stored), revision));
        loaded.leases.extend(leases);
        Ok(self.changes)
    }
}

/// The leases that changes are applied to, with their revisions.
pub(in crate::engine) type Leases = HashMap<LeaseKey, (Arc<Stored>, u64)>;

/// Applies the changes of consecutive batches to these leases. Only the changes that the leases
/// lacked remain, with complete lists of retired ids.
pub(in crate::engine) fn apply(
    batches: &mut [Vec<LoggedChange>],
    leases: &mut Leases,
) -> Result<(), String> {
    let mut deletions: HashMap<LeaseKey, u64> = HashMap::new();
    for change in batches.iter().flatten() {
        if let Content::Deleted(_) = change.content {
            deletions.insert(change.key.clone(), change.revision);
        }
    }
    for changes in batches {
        let mut lacking = Vec::new();
        for mut change in changes.drain(..) {
            let (before, revision) = match leases.get(&change.key) {
                Some((stored, revision)) => (stored.retired.as_slice(), *revision),
                None => (&[][..], 0),
            };
            let deleted_at = deletions.get(&change.key).copied().unwrap_or(0);
            if change.revision <= revision || change.revision < deleted_at {
                continue;
            }
            match &mut change.content {
                Content::Deleted(_) => drop(leases.remove(&change.key)),
                Content::Lease(stored) => {
                    if let Some(delta) = change.delta.take() {
                        let retired = delta.apply(before, revision)?;
                        Arc::make_mut(stored).retired = retired;
                    }
                    let lease = (Arc::clone(stored), change.revision);
                    leases.insert(change.key.clone(), lease);
                }
            }
            lacking.push(change);
        }
        *changes = lacking;
    }
    Ok(())
}

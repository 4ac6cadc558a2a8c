//! The application of batches to leases that were loaded from places.
//!
//! **No change is lost.** An append is acknowledged when its batch is durable in the log. The
//! places may be behind the log. A reader of the tables therefore applies the batches that the log
//! still contains, in their order. A log removes a batch only when the places contain all changes
//! of that batch and of all batches before it. So for each lease the places have all changes up to
//! some revision, and the remaining batches have all changes after it.
//!
//! **A change that is applied twice has no further effect.** The places may already contain some
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

use std::collections::HashMap;
use std::sync::Arc;

use tenure_core::lease::Stored;

use crate::engine::entry::LoggedChange;
use crate::model::{Content, LeaseKey};

/// The leases that changes are applied to, with their revisions.
pub(super) type Leases = HashMap<LeaseKey, (Arc<Stored>, u64)>;

/// Applies the changes of consecutive batches to these leases. Only the changes that the leases
/// lacked remain, with complete lists of retired ids.
pub(super) fn apply(batches: &mut [Vec<LoggedChange>], leases: &mut Leases) -> Result<(), String> {
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

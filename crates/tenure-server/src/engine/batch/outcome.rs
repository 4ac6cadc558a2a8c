//! Applies batches to leases, and to tables that are behind the log.
//!
//! **No change is lost.** An append is acknowledged when its batch is durable in the log. Tables that follow
//! the log may be behind it, so a reader of the tables applies the batches that the log still contains, in
//! their order. A log removes a batch only when the tables contain all its changes and those of all batches
//! before it. So the remaining batches have, of each lease, all changes after some revision, and the table
//! has all changes up to that revision.
//!
//! **A change that is applied twice changes nothing.** The tables may contain some changes of the remaining
//! batches already: those up to the revision of the lease's row.
//!
//! - A change has the whole lease, and the last one decides: the row contains it, or a later one. Only the
//!   retired ids may be a delta. A delta names the revision of its lease that it follows. It is applied to a
//!   list as of that revision and to no other: deltas up to the row's revision are skipped, and one that does
//!   not follow the revision of the list is an error.
//! - A deletion removes the lease's row and terms, also those of a lease that was made later under the same
//!   name. But the batches then have all changes of that later lease, after the deletion.
//! - The epochs of a lease only grow, so the table contains a term before the last one that it has, or has
//!   forgotten it as too old. The last one may change: the batches have everything that was recorded about
//!   it since it came into the table, and the first reason stays.

use std::collections::{BTreeMap, LinkedList};

use tenure_core::Epoch;
use tenure_core::lease::Stored;

use super::retired::ID;
use super::{Batch, DeletedLease, Item, LeaseFields, RetiredIds, bytes_of, follow, key_of};
use crate::engine::Loaded;
use crate::model::{LeaseKey, TermRecord};

/// Outcomes by namespace and lease.
pub(in crate::engine) type Outcomes<'a> = BTreeMap<(&'a str, &'a str), Outcome<'a>>;

/// The outcome of all batches for one lease.
#[derive(Debug, Default)]
pub(in crate::engine) struct Outcome<'a> {
    /// The lease without its retired ids. `None` if it was deleted, or if no batch has a change of it.
    lease: Option<LeaseFields<'a>>,
    /// The changes of its retired ids at these revisions.
    retired: Vec<(u64, RetiredIds<'a>)>,
    /// The lease was deleted: what a table has of it is of an earlier lease of this name.
    pub(in crate::engine) was_deleted: bool,
    pub(in crate::engine) terms: BTreeMap<Epoch, TermRecord>,
}

/// The outcomes of the batches for the leases that they change, and the deletions in order.
pub(in crate::engine) fn outcomes(
    batches: &[Batch],
) -> Result<(Outcomes<'_>, Vec<DeletedLease<'_>>), String> {
    let (mut outcomes, mut deletions) = (Outcomes::new(), Vec::new());
    for item in batches.iter().flat_map(Batch::items) {
        match item? {
            Item::Lease(fields, retired) => {
                let outcome = outcomes.entry((fields.namespace, fields.lease));
                outcome.or_default().change(fields, retired);
            }
            Item::Deleted(deleted) => {
                outcomes.insert((deleted.namespace, deleted.lease), Outcome::deleted());
                deletions.push(deleted);
            }
            Item::Term(names, term) => outcomes.entry(names).or_default().record(term),
        }
    }
    Ok((outcomes, deletions))
}

/// Applies the batches that follow what is loaded from tables.
pub(in crate::engine) fn replay(batches: &[Batch], loaded: &mut Loaded) -> Result<(), String> {
    loaded.revision = follow(batches, loaded.revision)?;
    let (in_batches, deletions) = outcomes(batches)?;
    loaded.floor = loaded.floor.max(last_epoch(&deletions));
    for deletion in deletions.iter().filter(|it| !it.retired.is_empty()) {
        loaded.deleted.push(deletion.left()?);
    }
    let mut outcomes = BTreeMap::new();
    for (names, outcome) in in_batches {
        if outcome.changes_lease() {
            outcomes.insert(key_of(names)?, outcome);
        }
    }
    // A table may have a lease as of a later revision than the table as a whole, but not of one after the
    // whole log.
    let newest = loaded.leases.iter().find(|lease| lease.2 > loaded.revision);
    if let Some((key, revision, ..)) = newest.map(|lease| (&lease.0, lease.2)) {
        return Err(format!(
            "the row of {:?} has revision {revision}, and the last revision is {}",
            key.as_str(),
            loaded.revision
        ));
    }
    if outcomes.is_empty() {
        return Ok(());
    }
    let mut leases = LinkedList::new();
    for (key, stored, revision) in std::mem::take(&mut loaded.leases) {
        match outcomes.remove(&key) {
            None => leases.push_back((key, stored, revision)),
            Some(outcome) => {
                let retired = bytes_of(&stored.retired);
                leases.extend(outcome.into_lease(revision, &retired)?);
            }
        }
    }
    for outcome in outcomes.into_values() {
        leases.extend(outcome.into_lease(0, &[])?);
    }
    loaded.leases = leases;
    Ok(())
}

/// The greatest epoch that was deleted with its lease.
pub(in crate::engine) fn last_epoch(deletions: &[DeletedLease<'_>]) -> Option<Epoch> {
    deletions.iter().filter_map(|deleted| deleted.last).max()
}

impl<'a> Outcome<'a> {
    /// The lease was deleted.
    pub(in crate::engine) fn deleted() -> Self {
        Self {
            was_deleted: true,
            ..Self::default()
        }
    }

    /// The lease changed.
    fn change(&mut self, fields: LeaseFields<'a>, retired: RetiredIds<'a>) {
        self.retired.push((fields.revision, retired));
        self.lease = Some(fields);
    }

    /// The lease changed; the columns have all its retired ids.
    pub(in crate::engine) fn change_to(&mut self, mut fields: LeaseFields<'a>) {
        let all = std::mem::take(&mut fields.retired);
        self.change(fields, RetiredIds::All(all));
    }

    /// A term ended, or is to end for a reason.
    pub(in crate::engine) fn record(&mut self, term: TermRecord) {
        let term = match self.terms.remove(&term.epoch) {
            Some(earlier) => term.replacing(earlier),
            None => term,
        };
        self.terms.insert(term.epoch, term);
    }

    /// Whether the lease itself changed, and not only what is recorded about its terms.
    pub(in crate::engine) const fn changes_lease(&self) -> bool {
        self.lease.is_some() || self.was_deleted
    }

    /// The lease with all its retired ids. A table has these of them, as of this revision.
    pub(in crate::engine) fn take_lease(
        &mut self,
        revision: u64,
        in_table: &[u8],
    ) -> Result<Option<LeaseFields<'a>>, String> {
        let Some(mut fields) = self.lease.take() else {
            return Ok(None);
        };
        // The batches have everything since a deletion, whatever of it the table has.
        let (mut revision, in_table) = match self.was_deleted {
            true => (0, [].as_slice()),
            false => (revision, in_table),
        };
        let mut list: Vec<[u8; ID]> = in_table.as_chunks().0.to_vec();
        for (at, retired) in &self.retired {
            // The table has the effect of the others.
            if *at > revision {
                retired.apply(&mut list, revision)?;
                revision = *at;
            }
        }
        fields.retired = list.into_flattened().into();
        Ok(Some(fields))
    }

    /// The lease, if it exists now.
    fn into_lease(
        mut self,
        revision: u64,
        in_table: &[u8],
    ) -> Result<Option<(LeaseKey, Stored, u64)>, String> {
        let fields = self.take_lease(revision, in_table)?;
        fields.map(LeaseFields::into_lease).transpose()
    }
}

//! A database that is filled from the log of another engine.

use std::path::Path;

use rusqlite::Connection;
use tenure_core::lease::{LeaseId, Stored};

use super::schema::{self, Meta, WRITE_LEASE};
use super::{batch_log, deleted, rows, term_rows};
use crate::engine::Batch;
use crate::engine::batch::columns;
use crate::model::{Floors, LeaseKey, StoreId, TermRecord};

/// A database that is being filled, in one transaction.
///
/// It has the rules of a data directory: the tables have all changes up to a revision, and may have
/// later changes of some leases; the batches have all changes after that revision.
#[derive(Debug)]
pub(in crate::engine) struct Import {
    connection: Connection,
    meta: Meta,
}

impl Import {
    /// Begins in the empty file at this path. The tables will have all changes up to this revision.
    pub(in crate::engine) fn begin(
        path: &Path,
        store: &StoreId,
        revision: u64,
    ) -> rusqlite::Result<Self> {
        let connection = schema::connect_to_copy(path)?;
        connection.execute_batch("BEGIN")?;
        schema::create_tables(&connection, store)?;
        let meta = Meta {
            revision,
            ..Meta::default()
        };
        meta.write(&connection)?;
        Ok(Self { connection, meta })
    }

    pub(in crate::engine) fn add_lease(
        &mut self,
        key: &LeaseKey,
        stored: &Stored,
        revision: u64,
    ) -> rusqlite::Result<()> {
        let columns = columns(key, stored, &stored.retired, revision);
        rows::write(&self.connection, &mut self.meta, WRITE_LEASE, &columns).map(|_| ())
    }

    /// Adds a segment: some consecutive terms of a lease, oldest first.
    pub(in crate::engine) fn add_terms(
        &mut self,
        key: &LeaseKey,
        terms: &[TermRecord],
    ) -> rusqlite::Result<()> {
        term_rows::write_segment(&self.connection, &mut self.meta, key, terms).map(|_| ())
    }

    /// Adds a deleted lease. The deletions are added in their order.
    pub(in crate::engine) fn add_deleted(
        &mut self,
        key: &LeaseKey,
        retired: &[LeaseId],
    ) -> rusqlite::Result<()> {
        deleted::insert(&self.connection, &mut self.meta, key, retired)
    }

    /// Adds a batch. Returns whether it follows the one before; if not, nothing was added.
    pub(in crate::engine) fn add_batch(&mut self, batch: &Batch) -> rusqlite::Result<bool> {
        batch_log::append(&self.connection, batch)
    }

    /// Ends the transaction. No epoch up to its floor may be granted again.
    pub(in crate::engine) fn finish(self, floors: Floors) -> rusqlite::Result<()> {
        let meta = Meta {
            floors,
            ..self.meta
        };
        meta.write(&self.connection)?;
        self.connection.execute_batch("COMMIT")
    }
}

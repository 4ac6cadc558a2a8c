//! A second connection, which reads terms, so that readers and commits don't wait for each other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, params};
use tenure_core::Epoch;

use super::batch_log;
use super::schema::corrupt;
use super::term_rows::{SELECT, Segment};
use crate::engine::TermHistory;
use crate::engine::pending::PendingLease;
use crate::model::{LeaseKey, TermRecord};

/// The connection for reading terms.
#[derive(Debug)]
pub(super) struct TermReader {
    /// The connection; `None` once the engine is closed.
    connection: Mutex<Option<Connection>>,
}

impl TermReader {
    pub(super) fn over(connection: Connection) -> Arc<Self> {
        let connection = Mutex::new(Some(connection));
        Arc::new(Self { connection })
    }

    /// Waits for a read that is in progress, and refuses further reads.
    pub(super) fn close(&self) {
        drop(self.lock().take());
    }

    fn lock(&self) -> MutexGuard<'_, Option<Connection>> {
        let connection = self.connection.lock();
        connection.unwrap_or_else(PoisonError::into_inner)
    }
}

impl TermHistory for TermReader {
    fn terms(&self, key: &LeaseKey, last: Epoch, most: usize) -> Result<Vec<TermRecord>, String> {
        let connection = self.lock();
        let connection = connection.as_ref().ok_or("the database is closed")?;
        read(connection, key, last, most).map_err(|error| error.to_string())
    }
}

fn read(
    connection: &Connection,
    key: &LeaseKey,
    last: Epoch,
    most: usize,
) -> rusqlite::Result<Vec<TermRecord>> {
    // Both reads are in one transaction. Otherwise a checkpoint between them could hide a term or
    // show it twice.
    let transaction = connection.unchecked_transaction()?;
    let mut pending = PendingLease::default();
    for batch in batch_log::read(&transaction, 0)? {
        for change in batch.changes().map_err(corrupt)? {
            if change.key == *key {
                pending.add(change.revision, &change.content, change.term.as_ref());
            }
        }
    }
    let mut terms: Vec<TermRecord> = Vec::new();
    let (changed, is_deleted) = pending.into_terms();
    if !is_deleted {
        let mut select = transaction.prepare_cached(SELECT)?;
        let mut rows = select.query(params![key.namespace(), key.lease(), last.get()])?;
        while terms.len() < most
            && let Some(row) = rows.next()?
        {
            let mut older = Segment::read(row)?.terms()?;
            older.retain(|term| term.epoch <= last);
            older.append(&mut terms);
            terms = older;
        }
    }
    for term in changed {
        if term.epoch <= last {
            term.add_to(&mut terms);
        }
    }
    Ok(terms.into_iter().rev().take(most).collect())
}

//! A second connection that reads terms, so that readers and commits don't wait for each other.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, params};
use tenure_core::Epoch;

use super::term_rows::{SELECT, Segment};
use super::{batch_log, schema};
use crate::engine::batch::Item;
use crate::engine::{OpenError, TermHistory};
use crate::model::{LeaseKey, TermRecord};

/// The connection.
#[derive(Debug)]
pub(super) struct TermReader {
    /// `None` once the engine is closed.
    connection: Mutex<Option<Connection>>,
}

impl TermReader {
    pub(super) fn open(path: &Path) -> Result<Arc<Self>, OpenError> {
        let connection = Mutex::new(Some(schema::connect_to_read(path)?));
        Ok(Arc::new(Self { connection }))
    }

    /// Waits for a read that is under way, and allows no more.
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
        let text = |error: rusqlite::Error| error.to_string();
        let connection = self.lock();
        let connection = connection.as_ref().ok_or("the database is closed")?;
        // One transaction: a checkpoint between the two reads would show a term twice or not at all.
        let transaction = connection.unchecked_transaction().map_err(text)?;
        let mut terms = BTreeMap::new();
        let mut record = |term: TermRecord| {
            let term = match terms.remove(&term.epoch) {
                Some(earlier) => term.replacing(earlier),
                None => term,
            };
            terms.insert(term.epoch, term);
        };
        let names = (key.namespace(), key.lease());
        let mut was_deleted = false;
        let mut in_batches = Vec::new();
        for batch in batch_log::read(&transaction, 0)? {
            for item in batch.items() {
                match item? {
                    Item::Term(of, term) if of == names && term.epoch <= last => {
                        in_batches.push(term);
                    }
                    Item::Deleted(deleted) if (deleted.namespace, deleted.lease) == names => {
                        was_deleted = true;
                        in_batches.clear();
                    }
                    Item::Term(..) | Item::Deleted(_) | Item::Lease(..) => {}
                }
            }
        }
        if !was_deleted {
            let mut select = transaction.prepare_cached(SELECT).map_err(text)?;
            let of_lease = params![names.0, names.1, last.get()];
            let mut rows = select.query(of_lease).map_err(text)?;
            let mut found = 0;
            while let Some(row) = rows.next().map_err(text)?.filter(|_| found < most) {
                let segment = Segment::read(row)?;
                let terms = segment.terms()?.into_iter();
                for term in terms.filter(|term| term.epoch <= last) {
                    record(term);
                    found += 1;
                }
            }
        }
        in_batches.into_iter().for_each(&mut record);
        Ok(terms.into_values().rev().take(most).collect())
    }
}

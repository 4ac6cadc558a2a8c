//! The terms of leases, read from the places over a second connection, so that readers and commits
//! don't wait for each other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::Epoch;

use super::backlog::Backlog;
use super::log::SharedLog;
use super::places;
use crate::engine::TermHistory;
use crate::engine::pending::SEGMENT;
use crate::model::{LeaseKey, TermRecord};

/// The reader of terms of one ownership.
#[derive(Debug)]
pub(super) struct SharedTerms {
    /// The connection; `None` once the engine is closed.
    log: Mutex<Option<Box<dyn SharedLog>>>,
    backlog: Arc<Mutex<Backlog>>,
}

impl SharedTerms {
    pub(super) fn new(log: Box<dyn SharedLog>, backlog: Arc<Mutex<Backlog>>) -> Arc<Self> {
        let log = Mutex::new(Some(log));
        Arc::new(Self { log, backlog })
    }

    /// Waits for a read that is in progress, and refuses further reads.
    pub(super) fn close(&self) {
        drop(self.log().take());
    }

    fn log(&self) -> MutexGuard<'_, Option<Box<dyn SharedLog>>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TermHistory for SharedTerms {
    fn terms(&self, key: &LeaseKey, last: Epoch, most: usize) -> Result<Vec<TermRecord>, String> {
        // The changes without a place are read first. A change that gets its place meanwhile is
        // then in both, and not in neither.
        let backlog = self.backlog.lock().unwrap_or_else(PoisonError::into_inner);
        let (changed, is_deleted) = backlog.terms(key);
        drop(backlog);
        let mut terms: Vec<TermRecord> = Vec::new();
        if !is_deleted {
            let mut log = self.log();
            let log = log.as_mut().ok_or("the connection is closed")?;
            let mut range = places::terms_up_to(key, last);
            range.most = range.most.min(most.div_ceil(SEGMENT) + 1);
            while terms.len() < most {
                let page = log.places(&range).map_err(|error| error.to_string())?;
                for place in &page {
                    let segment = places::read_segment(key, place);
                    let mut older = segment.map_err(|error| error.to_string())?.terms;
                    older.retain(|term| term.epoch <= last);
                    older.append(&mut terms);
                    terms = older;
                }
                match page.into_iter().next_back() {
                    Some(oldest) => range.to = oldest.key,
                    None => break,
                }
            }
        }
        for term in changed {
            if term.epoch <= last {
                term.add_to(&mut terms);
            }
        }
        Ok(terms.into_iter().rev().take(most).collect())
    }
}

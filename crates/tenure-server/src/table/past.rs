//! The terms of a lease in a store in memory.

use crate::model::TermRecord;

/// The last terms of one lease, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Past(Vec<TermRecord>);

impl Past {
    /// Records a term, and forgets the oldest ones beyond `most`.
    pub(crate) fn record(&mut self, term: TermRecord, most: usize) {
        term.add_to(&mut self.0);
        self.0.drain(..self.0.len().saturating_sub(most));
    }

    /// Returns the terms, newest first.
    pub(crate) fn terms(&self) -> impl Iterator<Item = TermRecord> {
        self.0.iter().rev().cloned()
    }
}

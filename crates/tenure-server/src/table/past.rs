//! The terms of a lease in a store in memory.

use std::collections::VecDeque;

use crate::model::TermRecord;

/// The last terms of one lease.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// Newest first.
    terms: VecDeque<TermRecord>,
}

impl Past {
    /// Records a term, and forgets the oldest beyond `most`.
    pub(crate) fn record(&mut self, term: TermRecord, most: usize) {
        match self.terms.front_mut() {
            Some(last) if last.epoch == term.epoch => *last = term.replacing(last.clone()),
            _ => self.terms.push_front(term),
        }
        self.terms.truncate(most);
    }

    /// The terms, newest first.
    pub(crate) fn terms(&self) -> impl Iterator<Item = TermRecord> {
        self.terms.iter().cloned()
    }
}

//! The terms of a lease, where nothing but memory keeps them.

use std::collections::VecDeque;

use crate::engine::Term;

/// The last terms of one lease.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// Newest first.
    terms: VecDeque<Term>,
}

impl Past {
    /// Notes a term, and forgets the oldest of more than so many.
    pub(crate) fn note(&mut self, term: Term, most: usize) {
        let noted = self.terms.pop_front_if(|last| last.epoch == term.epoch);
        self.terms.push_front(match noted {
            Some(earlier) => term.after(earlier),
            None => term,
        });
        self.terms.truncate(most);
    }

    /// The terms, newest first.
    pub(crate) fn terms(&self) -> impl Iterator<Item = Term> {
        self.terms.iter().cloned()
    }
}

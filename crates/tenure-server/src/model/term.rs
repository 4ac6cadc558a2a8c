//! The terms that leases have had.

use tenure_core::lease::{Owner, TermEnd};
use tenure_core::{CandidateId, Epoch, UnixMillis};

/// One term of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TermRecord {
    pub(crate) epoch: Epoch,
    pub(crate) holder: CandidateId,
    pub(crate) owner: Option<Owner>,
    pub(crate) began_at: UnixMillis,
    /// How and when the term ended; `None` while it goes on.
    pub(crate) ended: Option<(TermEnd, UnixMillis)>,
    /// Why the term ended or is to end, if a request said so.
    pub(crate) reason: Option<Box<str>>,
}

impl TermRecord {
    /// Adds the record to those of its lease, oldest first.
    pub(crate) fn add_to(self, terms: &mut Vec<Self>) {
        match terms.last_mut() {
            Some(last) if last.epoch == self.epoch => *last = self.replacing(last.clone()),
            // The epochs of a lease only grow, so the list has the term, or has forgotten it.
            Some(last) if last.epoch > self.epoch => {}
            _ => terms.push(self),
        }
    }

    /// This record, which replaces `earlier` of the same term.
    ///
    /// The first reason stays: an operator who breaks a lease says why, and the holder that then releases
    /// it can only say that the lease was broken.
    pub(crate) fn replacing(self, earlier: Self) -> Self {
        Self {
            reason: earlier.reason.or(self.reason),
            ..self
        }
    }
}

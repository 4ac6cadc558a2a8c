//! The terms of leases.

use serde::{Deserialize, Serialize};
use tenure_core::lease::{Owner, TermEnd, WithoutStore};
use tenure_core::{CandidateId, Epoch, UnixMillis};

/// One term of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TermRecord {
    pub(crate) epoch: Epoch,
    pub(crate) holder: CandidateId,
    pub(crate) owner: Option<Owner>,
    pub(crate) began_at: UnixMillis,
    /// The kind and the time of the term's end; `None` while the term continues.
    pub(crate) ended: Option<(TermEnd, UnixMillis)>,
    /// The reason why the term ended or is to end, if a request gave one.
    pub(crate) reason: Option<Box<str>>,
    /// The periods in which the term was led without the store.
    pub(crate) without_store: Option<Box<WithoutStore>>,
}

impl TermRecord {
    /// Returns this record, which replaces the record `earlier` of the same term.
    ///
    /// The first reason stays: an operator who breaks a lease gives the cause. The holder that then
    /// releases the lease can only report that the lease was broken.
    pub(crate) fn replacing(self, earlier: Self) -> Self {
        Self {
            reason: earlier.reason.or(self.reason),
            ..self
        }
    }
}

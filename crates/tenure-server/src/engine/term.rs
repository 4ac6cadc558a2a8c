//! What is remembered of the terms that leases have had.

use std::fmt;

use tenure_core::lease::TermEnd;
use tenure_core::{CandidateId, Epoch, UnixMillis};

use crate::table::Key;

/// One term of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) epoch: Epoch,
    pub(crate) holder: CandidateId,
    pub(crate) began_at: UnixMillis,
    /// How and when; `None` while it goes on.
    pub(crate) ended: Option<(TermEnd, UnixMillis)>,
    /// Why it ended, or is to end, as far as anybody said.
    pub(crate) reason: Option<Box<str>>,
}

impl Term {
    /// The term as it is now, after `earlier` was noted of it.
    pub(crate) fn after(self, earlier: Self) -> Self {
        Self {
            reason: Self::first_reason(earlier.reason, self.reason),
            ..self
        }
    }

    /// The first reason stays: who breaks a lease says why, and its holder, who then gives it up, can
    /// only say that it was broken.
    pub(crate) fn first_reason<T>(earlier: Option<T>, later: Option<T>) -> Option<T> {
        earlier.or(later)
    }
}

/// The terms that an engine keeps, for reading while it commits.
pub(crate) trait Archive: fmt::Debug + Send + Sync {
    /// The terms of a lease up to the epoch `last`, newest first, at most so many. All that was
    /// committed before the call is in it. It blocks.
    ///
    /// # Errors
    ///
    /// What the engine says about it, for a log.
    fn terms(&self, key: &Key, last: Epoch, most: usize) -> Result<Vec<Term>, String>;
}

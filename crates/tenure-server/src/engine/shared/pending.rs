//! The changes of a lease that are in batches and not in the tables, and the segments in which the
//! tables have its terms.

use std::sync::Arc;

use tenure_core::lease::{LeaseId, Stored};

use crate::model::{Content, TermRecord};

/// The number of terms in a full segment. Terms of usual size fit into a quarter of a page of a
/// database, so a row needs no page of its own.
pub(super) const SEGMENT: usize = 8;

/// Returns the number of segments that contain the last `most` terms, if the newest segment has
/// `newest`.
pub(super) const fn segments(newest: usize, most: usize) -> usize {
    match most {
        0 => 0,
        _ => 1 + most.saturating_sub(newest).div_ceil(SEGMENT),
    }
}

/// The changes of a lease since its version in the tables.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingLease {
    /// The number of the first batch with a change that the tables lack.
    pub(super) first: u64,
    /// The current lease and its revision; `None` if the lease was deleted.
    pub(super) lease: Option<(Arc<Stored>, u64)>,
    /// The revision of the last deletion and the lease ids of the ended terms, if the tables may
    /// have the lease and it was deleted since.
    pub(super) deletion: Option<(u64, Vec<LeaseId>)>,
    /// The records of terms since then, oldest first.
    pub(super) terms: Vec<TermRecord>,
}

impl PendingLease {
    pub(super) fn add(&mut self, revision: u64, content: &Content, term: Option<&TermRecord>) {
        match content {
            Content::Lease(stored) => self.lease = Some((Arc::clone(stored), revision)),
            Content::Deleted(deleted) => {
                *self = Self {
                    first: self.first,
                    deletion: Some((revision, deleted.retired.clone())),
                    ..Self::default()
                }
            }
        }
        if let Some(term) = term {
            term.clone().add_to(&mut self.terms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_segments_are_kept_as_have_the_last_terms() {
        for (newest, most, kept) in [
            (1, 0, 0),
            (1, 1, 1),
            (8, 8, 1),
            (7, 8, 2),
            (1, 9, 2),
            (1, 10, 3),
            (8, 100, 13),
        ] {
            assert_eq!(segments(newest, most), kept, "{newest} {most}");
        }
    }
}

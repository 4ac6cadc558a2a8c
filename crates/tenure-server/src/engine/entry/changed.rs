//! The changes of consecutive entries, gathered by lease.
//!
//! Only the last change of a lease counts, because a change has the whole lease. Its retired ids may be
//! a difference to the list before, so the differences since the last whole list are gathered, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::lease::Stored;

use super::{LoggedChange, RetiredDelta};
use crate::model::{Content, LeaseKey};

/// The last changes of leases, by lease.
pub(in crate::engine) type ChangedLeases = BTreeMap<LeaseKey, ChangedLease>;

/// The changes of one lease.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct ChangedLease {
    /// The lease after them; `None` if it was deleted. Its list of retired ids is not known while
    /// there are deltas.
    lease: Option<Arc<Stored>>,
    revision: u64,
    /// The differences since the list before these changes, each with the revision of its change.
    deltas: Vec<(RetiredDelta, u64)>,
}

impl ChangedLease {
    /// Adds a change, which follows the others. `is_first` says that there is no other.
    pub(in crate::engine) fn add(
        &mut self,
        change: LoggedChange,
        is_first: bool,
    ) -> Result<(), String> {
        let LoggedChange {
            revision,
            content,
            delta,
            ..
        } = change;
        let mut lease = match content {
            Content::Lease(lease) => Some(lease),
            Content::Deleted(_) => None,
        };
        match (delta, &mut lease) {
            (Some(delta), Some(_)) if is_first || !self.deltas.is_empty() => {
                self.deltas.push((delta, revision));
            }
            (Some(delta), Some(lease)) => {
                let before = self.lease.as_ref().map_or(&[][..], |it| &it.retired);
                Arc::make_mut(lease).retired = delta.apply(before, self.revision)?;
            }
            _ => self.deltas.clear(),
        }
        (self.lease, self.revision) = (lease, revision);
        Ok(())
    }

    /// Returns whether the lease before these changes is needed.
    pub(in crate::engine) const fn needs_before(&self) -> bool {
        !self.deltas.is_empty()
    }

    /// Returns the lease after these changes with its revision; `None` if it was deleted. `before` is
    /// the lease before them, if it is needed and existed.
    pub(in crate::engine) fn finish(
        self,
        before: Option<(Stored, u64)>,
    ) -> Result<Option<(Stored, u64)>, String> {
        let Some(mut lease) = self.lease.map(Arc::unwrap_or_clone) else {
            return Ok(None);
        };
        if !self.deltas.is_empty() {
            let (mut ids, mut revision) = before.map_or((Vec::new(), 0), |(lease, revision)| {
                (lease.retired, revision)
            });
            for (delta, at) in &self.deltas {
                ids = delta.apply(&ids, revision)?;
                revision = *at;
            }
            lease.retired = ids;
        }
        Ok(Some((lease, self.revision)))
    }
}

//! The changes of consecutive entries, gathered by lease.
//!
//! Only the last change of a lease counts, because a change has the whole lease. Only its retired ids
//! may be a difference to the list before. A lease is not decoded here: most of them are only copied.

use std::collections::BTreeMap;

use super::{DecodeError, EncodedChange, Outline, RetiredDelta, with_retired};
use crate::model::LeaseKey;

/// The last changes of leases, by lease.
pub(in crate::engine) type ChangedLeases = BTreeMap<LeaseKey, ChangedLease>;

/// The changes of one lease.
#[derive(Clone, Debug)]
pub(in crate::engine) struct ChangedLease {
    /// The encoded lease after them; `None` if it was deleted.
    lease: Option<Box<[u8]>>,
    revision: u64,
    /// The difference between its retired ids and those before these changes, if that is not in the
    /// bytes.
    delta: Option<RetiredDelta>,
}

impl ChangedLease {
    /// Begins with the first change.
    pub(in crate::engine) fn new(change: EncodedChange<'_>) -> Self {
        Self {
            lease: change.lease.map(Into::into),
            revision: change.revision,
            delta: change.delta,
        }
    }

    /// Begins with a lease of a snapshot.
    pub(in crate::engine) fn whole(bytes: &[u8]) -> Result<Self, String> {
        Ok(Self {
            lease: Some(bytes.into()),
            revision: Outline::of(bytes).map_err(invalid)?.revision,
            delta: None,
        })
    }

    /// Returns whether the lease was deleted.
    pub(in crate::engine) const fn is_deleted(&self) -> bool {
        self.lease.is_none()
    }

    /// Returns the encoded lease; `None` if it was deleted.
    ///
    /// # Errors
    ///
    /// The lease before the first change is needed.
    pub(in crate::engine) fn encoded(&self) -> Result<Option<&[u8]>, String> {
        match &self.delta {
            Some(delta) => Err(format!("revision {} of it is missing", delta.follows)),
            None => Ok(self.lease.as_deref()),
        }
    }

    /// Adds a change, which follows the others.
    pub(in crate::engine) fn add(&mut self, change: EncodedChange<'_>) -> Result<(), String> {
        let mut next = Self::new(change);
        if let Some(delta) = &next.delta {
            match (self.delta.take(), &self.lease) {
                // The list before these changes is not known here.
                (Some(before), _) => next.delta = Some(before.then(delta, self.revision)?),
                (None, lease) => {
                    let before = match lease {
                        Some(lease) => Outline::of(lease).map_err(invalid)?.retired,
                        None => Vec::new(),
                    };
                    let retired = delta.apply(&before, self.revision)?;
                    next.set_retired(&retired)?;
                }
            }
        }
        *self = next;
        Ok(())
    }

    /// Returns the encoded lease after these changes; `None` if it was deleted. `before` is the encoded
    /// lease before them, if it existed.
    pub(in crate::engine) fn finish(
        mut self,
        before: Option<&[u8]>,
    ) -> Result<Option<Box<[u8]>>, String> {
        if let Some(delta) = self.delta.take() {
            let (ids, revision) = match before.map(Outline::of).transpose().map_err(invalid)? {
                Some(outline) => (outline.retired, outline.revision),
                None => (Vec::new(), 0),
            };
            let retired = delta.apply(&ids, revision)?;
            self.set_retired(&retired)?;
        }
        Ok(self.lease)
    }

    /// Makes the retired ids a part of the bytes.
    fn set_retired(&mut self, retired: &[tenure_core::lease::LeaseId]) -> Result<(), String> {
        if let Some(lease) = &mut self.lease {
            *lease = with_retired(lease, retired).map_err(invalid)?.into();
        }
        self.delta = None;
        Ok(())
    }
}

fn invalid(DecodeError(column): DecodeError) -> String {
    format!("it has an invalid {column}")
}

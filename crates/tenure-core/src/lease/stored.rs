//! The form of a record on disk: the same data without instants.

use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::Phase;
use super::{Grant, Lapse, LeaseId, Metadata, Record};
use crate::{CandidateId, Instant};

/// A record without instants. A reading of a monotonic clock has no meaning after a restart, so the
/// stored form contains full durations instead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// The state of the lease.
    pub state: StoredState,
    /// The current grant, or the last one.
    pub grant: Option<Grant>,
    /// The holder's metadata.
    pub metadata: Metadata,
    /// The candidate for which the lease is reserved, and the full time of the reservation.
    pub reserved: Option<(CandidateId, Duration)>,
    /// Lease ids of ended terms, oldest first.
    pub retired: Vec<LeaseId>,
}

/// The state of a lease on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StoredState {
    /// The lease is free.
    Available,
    /// A candidate holds the lease.
    Leased,
    /// A candidate holds the lease, and a break is in progress with this full period.
    Breaking(Duration),
    /// A break ended the term.
    Broken,
    /// The lease expired.
    Expired,
}

impl Record {
    /// Converts the record to its stored form, as of `now`.
    #[must_use]
    pub fn store(&self, now: Instant) -> Stored {
        let rare = self.rare.as_ref();
        let metadata = rare.and_then(|rare| rare.metadata.as_deref());
        Stored {
            state: match self.phase {
                Phase::Available => StoredState::Available,
                Phase::Leased { .. } => StoredState::Leased,
                Phase::Breaking { until } => StoredState::Breaking(until.since(now)),
                Phase::Broken { .. } => StoredState::Broken,
                Phase::Expired { .. } => StoredState::Expired,
            },
            grant: self.grant.clone(),
            metadata: metadata.cloned().unwrap_or_default(),
            reserved: self.reserved(now).map(|it| (it.to.clone(), it.within)),
            retired: self.retired().collect(),
        }
    }

    /// Restores the record for an authority that starts at `now`.
    ///
    /// **Restart grace**: every running duration starts again at `now`, in full. A renewal that was
    /// acknowledged but not written happened before `now`, so no lease ends earlier than its holder
    /// knows from the answers. A lease may end later, which delays a grant but is safe. The same
    /// applies to the period of a break, a lock delay, a reservation and the retention of retired
    /// ids.
    #[must_use]
    pub fn restore(stored: Stored, now: Instant) -> Self {
        let grant = stored.grant.as_ref();
        let lapsed = |lapse| Phase::lapsed(lapse, grant, now);
        let expires = grant.and_then(|grant| grant.duration.end(now));
        let mut record = Self {
            phase: match stored.state {
                StoredState::Available => Phase::Available,
                StoredState::Leased => Phase::Leased { expires },
                StoredState::Breaking(left) => Phase::Breaking { until: now + left },
                StoredState::Broken => lapsed(Lapse::Broken),
                StoredState::Expired => lapsed(Lapse::Expired),
            },
            grant: stored.grant,
            ..Self::default()
        };
        record.set_metadata(&stored.metadata);
        record.retire_all(stored.retired, now);
        if let Some((to, within)) = stored.reserved {
            record.reserve(to, within, now);
        }
        record
    }
}

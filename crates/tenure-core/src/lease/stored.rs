//! A record as it is on disk: the same, without instants.

use alloc::vec::Vec;
use core::time::Duration;

use super::record::Phase;
use super::{Grant, LeaseDuration, LeaseId, Metadata, Record, Reservation};
use crate::{CandidateId, Instant};

/// A record without instants. A clock reading means nothing after a restart, so what is kept is how
/// long each thing lasts in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Where the lease is.
    pub state: StoredState,
    /// The current or the last grant.
    pub grant: Option<Grant>,
    /// What the holder says about itself.
    pub metadata: Metadata,
    /// Whom the lease was handed over to, and for how long in full.
    pub reserved: Option<(CandidateId, Duration)>,
    /// Lease ids of ended terms, oldest first.
    pub retired: Vec<LeaseId>,
}

/// Where a lease is, on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredState {
    /// Nobody holds it.
    Available,
    /// Somebody holds it.
    Leased,
    /// Somebody holds it, and a break was begun that leaves so much time in full.
    Breaking(Duration),
    /// A break ended it.
    Broken,
    /// It expired.
    Expired,
}

impl Record {
    /// The record without instants, as of `now`.
    #[must_use]
    pub fn store(&self, now: Instant) -> Stored {
        Stored {
            state: match self.phase {
                Phase::Available => StoredState::Available,
                Phase::Leased { .. } => StoredState::Leased,
                Phase::Breaking { until } => StoredState::Breaking(until.since(now)),
                Phase::Broken => StoredState::Broken,
                Phase::Expired => StoredState::Expired,
            },
            grant: self.grant.clone(),
            metadata: self.metadata.as_deref().cloned().unwrap_or_default(),
            reserved: self
                .reserved
                .as_deref()
                .map(|reserved| (reserved.to.clone(), reserved.until.since(now))),
            retired: self.retired().collect(),
        }
    }

    /// The record that was stored, for an authority that starts at `now`.
    ///
    /// **Restart grace**: whatever was running counts as begun again at the start, in full. A
    /// renewal that was acknowledged and not written can only have been before `now`, so no lease
    /// ends earlier than its holder was told; it may end later, which costs time and no safety. The
    /// same goes for a break's period, a lock delay, a reservation and the memory of retired ids.
    #[must_use]
    pub fn restore(stored: Stored, now: Instant) -> Self {
        let lock_delay = match (&stored.grant, stored.state) {
            (Some(grant), StoredState::Broken | StoredState::Expired) => grant.lock_delay,
            _ => Duration::ZERO,
        };
        let duration = stored.grant.as_ref().map(|grant| grant.duration);
        Self {
            phase: match stored.state {
                StoredState::Available => Phase::Available,
                StoredState::Leased => Phase::Leased {
                    expires: match duration {
                        Some(LeaseDuration::Fixed(duration)) => Some(now + duration),
                        Some(LeaseDuration::Infinite) | None => None,
                    },
                },
                StoredState::Breaking(left) => Phase::Breaking { until: now + left },
                StoredState::Broken => Phase::Broken,
                StoredState::Expired => Phase::Expired,
            },
            grant: stored.grant,
            metadata: (!stored.metadata.is_empty()).then(|| stored.metadata.into()),
            barred_until: (!lock_delay.is_zero()).then(|| now + lock_delay),
            reserved: stored.reserved.map(|(to, within)| {
                Reservation {
                    to,
                    until: now + within,
                }
                .into()
            }),
            retired: stored.retired.into_iter().map(|id| (id, now)).collect(),
            floor: None,
        }
    }
}

//! Counters of messages.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::problem::PeerErrorCode;

/// Messages and requests since the member started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counters {
    /// Requests to other members that were begun; one more for each request that first had to learn
    /// the time there.
    pub sent: u64,
    /// Of these, those that the other member took.
    pub answered: u64,
    /// Of these, those that it refused.
    pub refused_by_peers: u64,
    /// Of these, those without an answer in time.
    pub failed: u64,
    /// Of these, those whose answer had no MAC, or a wrong one.
    pub answers_unauthenticated: u64,
    /// Messages that were too old before they could be sent.
    pub expired: u64,
    /// Messages that a newer one of the same kind replaced before they could be sent.
    pub replaced: u64,
    /// Requests of other members that were taken.
    pub taken: u64,
    /// Requests that were refused, by code.
    pub refused: BTreeMap<String, u64>,
}

/// The counters while they count.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) sent: Count,
    pub(super) answered: Count,
    pub(super) refused_by_peers: Count,
    pub(super) failed: Count,
    pub(super) answers_unauthenticated: Count,
    pub(super) expired: Count,
    pub(super) replaced: Count,
    pub(super) taken: Count,
    refused: [Count; PeerErrorCode::ALL.len()],
}

/// Counts up.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Tally {
    pub(super) fn refused(&self, code: PeerErrorCode) {
        let place = PeerErrorCode::ALL.iter().position(|known| *known == code);
        if let Some(count) = place.and_then(|place| self.refused.get(place)) {
            count.add();
        }
    }

    pub(super) fn read(&self) -> Counters {
        let refused = PeerErrorCode::ALL.iter().zip(&self.refused);
        Counters {
            sent: self.sent.get(),
            answered: self.answered.get(),
            refused_by_peers: self.refused_by_peers.get(),
            failed: self.failed.get(),
            answers_unauthenticated: self.answers_unauthenticated.get(),
            expired: self.expired.get(),
            replaced: self.replaced.get(),
            taken: self.taken.get(),
            refused: refused
                .map(|(code, count)| (code.as_str().to_owned(), count.get()))
                .filter(|(_, count)| *count > 0)
                .collect(),
        }
    }
}

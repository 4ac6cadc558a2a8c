//! The state of an election, for observers.

use std::collections::BTreeMap;

use tenure_core::{CandidateId, Epoch};

/// The state of an election, as far as the observer knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observed {
    /// This candidate leads.
    Leader {
        /// The leader.
        candidate: CandidateId,
        /// The leader's epoch.
        epoch: Epoch,
        /// The leader's metadata.
        metadata: BTreeMap<String, String>,
    },
    /// There is no leader. Among peers: the members that answer know no leader.
    NoLeader,
    /// The state is unknown; the text is the reason. The last known state may be outdated.
    Unknown(String),
}

impl Observed {
    /// Returns whether this state differs from the last one. A different reason for an unknown
    /// state is not a change.
    pub(crate) fn is_change(&self, last: &Self) -> bool {
        let both_unknown = matches!((self, last), (Self::Unknown(_), Self::Unknown(_)));
        self != last && !both_unknown
    }
}

//! The settings of the fallback, in code.

use std::fmt;
use std::str::FromStr;

use tenure_core::bully::{GroupTimingsOptions, Quorums};
use tenure_core::detector::DetectionOptions;

use super::{Bully, BullyError};

/// The members that elect a leader among themselves while the store is away, beside a strategy that
/// elects by a lease.
///
/// A candidate leads while it has the store's lease and the promises of k of the n members, itself
/// included, or the promises of n - k + 1 members without the store.
///
/// # Examples
///
/// ```
/// use tenure::config::{BesideStore, Bully, Fallback, Peer, PeerKey};
/// use tenure::{Config, NodeId};
///
/// let peers = [
///     Peer::new(NodeId(1), "http://10.0.0.1:7500")?,
///     Peer::new(NodeId(2), "http://10.0.0.2:7500")?,
///     Peer::new(NodeId(3), "http://10.0.0.3:7500")?,
/// ];
/// let mut members = Bully::new(NodeId(1), peers);
/// members.key = Some(PeerKey::new("a secret of at least 16 bytes")?);
/// members.state_dir = "/var/lib/tenure-peer".into();
/// let fallback = Fallback::new(members).with_k(BesideStore::Lease);
/// let config = Config::new("billing/nightly".parse()?).with_fallback(fallback);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fallback {
    /// The members. Their `quorum`, `preempt`, `relay` and `detection`, and the hold-down of their timings,
    /// must have the default values: the number k replaces the quorum, and a leader is never
    /// replaced while it works.
    pub members: Bully,
    /// The number of members that are enough beside the store. It must be the same for all members.
    pub k: BesideStore,
    /// Whether no leader is elected, and no term goes on, without the store. This is the step
    /// between a plain lease and a fallback, for a group that changes without a stop. Default: no.
    pub require_store: bool,
    /// Whether this member may start although its state directory is of a group with other settings
    /// or another store. Set it for one start of each member, after all members were stopped.
    pub accept_changes: bool,
}

/// The number k of members that are enough beside the store.
///
/// Without the store n - k + 1 members are needed, so a small k helps while the store answers, and
/// a large k helps while it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BesideStore {
    /// k = 1: while the store answers, the leader alone is enough, as with the strategy `lease`.
    /// Without the store all members are needed.
    Lease,
    /// The largest k for which fewer members are enough with the store than without it: 1 of 3, 2
    /// of 5.
    #[default]
    Balanced,
    /// The largest possible k, which is a majority of an odd number of members. Of an odd number as
    /// many members are needed with the store as without it.
    Majority,
    /// This number, 1 to half of the members, rounded up.
    Members(u32),
}

impl BesideStore {
    /// Returns k for this number of members.
    #[must_use]
    pub const fn of(self, members: usize) -> usize {
        match self {
            Self::Lease => 1,
            Self::Balanced => Quorums::default_k(members),
            Self::Majority => Quorums::largest_k(members),
            Self::Members(k) => k as usize,
        }
    }
}

impl fmt::Display for BesideStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lease => f.write_str("lease"),
            Self::Balanced => f.write_str("balanced"),
            Self::Majority => f.write_str("majority"),
            Self::Members(k) => k.fmt(f),
        }
    }
}

/// Parses a number, or the name of a policy in lower case.
impl FromStr for BesideStore {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "lease" => Self::Lease,
            "balanced" => Self::Balanced,
            "majority" => Self::Majority,
            number => Self::Members(number.parse().map_err(|_| {
                "must be a whole number of members, or \"lease\" (1), \"balanced\" or \"majority\""
                    .to_owned()
            })?),
        })
    }
}

impl Fallback {
    /// Creates the settings of a fallback to these members, with [`BesideStore::Balanced`].
    #[must_use]
    pub const fn new(members: Bully) -> Self {
        Self {
            members,
            k: BesideStore::Balanced,
            require_store: false,
            accept_changes: false,
        }
    }

    /// Sets the number of members that are enough beside the store.
    #[must_use]
    pub fn with_k(self, k: BesideStore) -> Self {
        Self { k, ..self }
    }

    /// Returns the quorums of these settings.
    pub(crate) fn quorums(&self) -> Result<Quorums, BullyError> {
        let members = self.members.peers.len();
        let quorums = Quorums::fallback(members, self.k.of(members))?;
        Ok(match self.require_store {
            true => quorums.requiring_store(),
            false => quorums,
        })
    }

    /// Checks that no setting is set that a fallback does not have.
    pub(super) fn check(&self) -> Result<(), BullyError> {
        let Bully {
            quorum,
            preempt,
            relay,
            timings,
            detection,
            ..
        } = &self.members;
        let GroupTimingsOptions { hold_down, .. } = timings;
        let set = [
            ("quorum", quorum.is_some()),
            ("preempt", *preempt),
            ("relay", *relay),
            ("hold_down", hold_down.is_some()),
            ("detection", *detection != DetectionOptions::default()),
        ];
        match set.iter().find(|(_, is_set)| *is_set) {
            Some((name, _)) => Err(BullyError::NotWithFallback(name)),
            None => Ok(()),
        }
    }
}

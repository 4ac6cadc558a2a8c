//! A term that has ended, and the voters that carry a running one.

use tenure_core::Epoch;
#[cfg(feature = "peers")]
use tenure_core::UnixMillis;
#[cfg(feature = "peers")]
pub use tenure_core::bully::QuorumKind;
use tenure_core::lease::candidate::EndReason;

/// A term that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TermSummary {
    /// The term's epoch.
    pub epoch: Epoch,
    /// The reason for its end.
    pub reason: EndReason,
    /// The error of the task with its causes (`can't read the ledger: no such file`), or its panic
    /// message.
    pub error: Option<String>,
}

/// The voters that carry a term now, of a candidate with a fallback.
#[cfg(feature = "peers")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TermQuorum {
    /// The kind of the quorum.
    pub kind: QuorumKind,
    /// How many more members can be lost without an end of the term. While the store carries the
    /// term, the leader asks no members, so those count as up.
    pub further_losses: usize,
    /// The time of the store's last answer in this term, or the beginning of the term, by the wall
    /// clock, if the store has been silent since; `None` while it answers.
    pub store_silent_since: Option<UnixMillis>,
}

//! The voters that carry a term with a fallback.

use tenure_core::UnixMillis;
pub use tenure_core::bully::QuorumKind;

/// The voters that carry a term now, of a candidate with a fallback.
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

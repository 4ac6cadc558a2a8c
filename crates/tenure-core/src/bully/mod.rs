//! Election among peers: Bully_FD, which is the Bully algorithm with a failure detector. This
//! version repairs the errors of the published algorithm, and requires a quorum if the group is
//! large enough.
//!
//! [`PeerCandidate`] is one member, a pure state machine (see
//! [`ElectionMachine`](crate::ElectionMachine) for the order of calls). Its inputs are
//! [`PeerInput`], and its effects are [`PeerEffect`].
//!
//! It runs one of two machines, depending on its [`GroupGuarantee`]. With
//! [`GroupGuarantee::Quorum`], the default from three members on, a member leads only with the
//! promise of a majority. Two leaders at a time are possible only if the rates of their clocks
//! differ by more than the margin. With [`GroupGuarantee::BestEffort`], the members that reach each
//! other have one leader, and a partitioned network may have several.
//!
//! `docs/bully.md` describes the errors of the published algorithm, how they were found, and how to
//! choose timings.

mod guarantee;
mod hard_state;
mod member;
mod message;
mod timings;

mod settings;

mod node_state;
mod outbox;

mod best_effort;
mod quorum;
mod quorums;

mod node;

mod bounds;

pub use crate::NodeId;
pub use bounds::Bounds;
pub use guarantee::GroupGuarantee;
pub use hard_state::HardState;
pub use member::{MAX_MEMBERS, Member, Membership, MembershipError, RECOMMENDED_RELAY_MEMBERS};
pub use message::{ElectionId, PeerEffect, PeerInput, PeerMessage, QuorumMessage};
pub use node::PeerCandidate;
#[cfg(test)]
pub(crate) use node_state::Process;
pub use node_state::Started;
pub use quorums::{QuorumKind, Quorums, QuorumsError};
pub use settings::{GroupSettings, NotAMember};
pub use timings::{GroupTimings, GroupTimingsError, GroupTimingsOptions};

#[cfg(test)]
mod tests;

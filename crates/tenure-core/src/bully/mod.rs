//! Electing among peers: Bully_FD, the Bully algorithm on a failure detector, repaired and guarded.
//!
//! [`Node`] is one member, a pure state machine. It is driven like the candidate of lease mode (see
//! [`Strategy`](crate::Strategy) for the order of calls); what goes in is [`Input`], what comes out is
//! [`Output`].
//!
//! There are two machines in it, and [`Guarantee`] says which one runs. With [`Guarantee::Quorum`],
//! the default from three members on, nobody leads without the promise of a majority: two leaders at
//! a time need clocks that are off. With [`Guarantee::BestEffort`] those who reach each other have
//! one leader, and a network that is parted may have several.
//!
//! What the published algorithm got wrong, how it was found, and how to choose timings is in
//! `docs/bully.md`.

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

mod node;

mod bounds;

pub use crate::NodeId;
pub use bounds::Bounds;
pub use guarantee::GroupGuarantee;
pub use hard_state::HardState;
pub use member::{MAX_MEMBERS, Member, Membership, MembershipError, MembershipWarning};
pub use message::{ElectionId, PeerEffect, PeerInput, PeerMessage, QuorumMessage};
pub use node::PeerCandidate;
pub use node_state::Started;
#[cfg(any(test, feature = "mutations"))]
pub use settings::DisabledRule;
pub use settings::{GroupSettings, NotAMember};
pub use timings::{GroupTimings, GroupTimingsError, GroupTimingsOptions};

#[cfg(test)]
mod tests;

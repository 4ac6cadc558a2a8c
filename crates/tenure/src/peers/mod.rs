//! The status of the members of an election among peers, for people and monitoring.
//!
//! Each member reports its own state, and needs no key for that. The reports may be outdated.
//! [`Observer::from_config`](crate::observe::Observer::from_config) watches the leader.

pub(crate) mod client;
pub(crate) mod group_store;
pub(crate) mod state;
pub(crate) mod transport;
pub(crate) mod wire;

pub use client::{AskError, Asked, GroupView, MemberView, PeersClient, agreement};
pub use tenure_core::bully::ElectionId;
pub use wire::{CarriedBy, Counters, PeerView, Status};

pub use crate::config::Peer;

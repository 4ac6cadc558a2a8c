//! The rules that tenure runs on, as pure state machines: what may happen to a lease
//! ([`lease::apply`]), what a candidate does about it ([`lease::candidate::LeaseCandidate`]), how members elect
//! among themselves where there is no store ([`bully::Node`]), and which nodes of a group are taken
//! for down ([`detector`]).
//!
//! Nothing here knows a clock, a socket or an async runtime. Time, randomness and messages come in
//! as arguments; what is to be done comes out as values. The store, the client, the tests and any
//! simulation run this very code, so there is no second copy of a rule. The crate is `no_std` as a
//! fence that the compiler keeps, not as a promise to embedded targets.
//!
//! It promises nothing about disks or networks: whoever calls it must do what it says, in the
//! order in which it says so.

#![no_std]

extern crate alloc;

pub mod time;

pub mod candidate_id;
pub mod epoch;
pub mod inline_str;
pub mod name;
pub mod node;
pub mod random;

pub mod bully;
pub mod lease;

pub mod detector;
pub mod election;

pub mod wire;

pub use candidate_id::{CandidateId, CandidateIdError};
pub use election::ElectionMachine;
pub use epoch::Epoch;
pub use inline_str::InlineStr;
pub use name::{ElectionName, Name, NameError};
pub use node::{Incarnation, NodeId};
pub use random::Random;
pub use time::{Instant, UnixMillis};

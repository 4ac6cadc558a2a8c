//! The protocols of tenure as pure state machines: the rules of a lease ([`lease`]), the candidate
//! for a lease ([`lease::candidate::LeaseCandidate`]), the election among peers without a store
//! ([`bully::PeerCandidate`]), and failure detectors ([`detector`]).
//!
//! The machines use no clock, socket or async runtime. Time, randomness and messages are arguments,
//! and actions are return values. The store, the library, the tests and the simulator run the same
//! code, so each rule exists once. The crate is `no_std` so that the compiler keeps clocks and
//! sockets out; support for embedded targets is not a goal.
//!
//! The crate performs no I/O. The caller must execute the outputs of a machine in their order: the
//! safety arguments depend on it.

#![no_std]

extern crate alloc;

pub mod time;

pub mod candidate_id;
pub mod epoch;
pub mod fence;
pub mod file_path;
pub mod inline_str;
pub mod name;
pub mod node;
pub mod pem;
pub mod random;
pub mod text;

pub mod bully;
pub mod lease;

pub mod detector;
pub mod election;
pub mod ownership;
pub mod ring;

pub mod wire;

pub use candidate_id::{CandidateId, CandidateIdError};
pub use election::ElectionMachine;
pub use epoch::Epoch;
pub use inline_str::InlineStr;
pub use name::{ElectionName, Name, NameError};
pub use node::{Incarnation, NodeId};
pub use random::Random;
pub use time::{Instant, UnixMillis};

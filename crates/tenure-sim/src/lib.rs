//! Simulates groups of hosts that elect a leader, and checks that they keep their guarantees.
//!
//! The simulation runs the library's own state machines: the candidates by a lease, among peers and
//! by both, the rules of the store, the servers of a cluster with their log, and the failure
//! detectors. A seed gives the same run on every machine. Another crate can add algorithms with messages of their own
//! ([`OtherAlgorithm`](contestant::OtherAlgorithm)).
//!
//! It does not check real disks, sockets and threads. Tests with real processes cover those.

mod names;
mod parallel;

pub mod sim;

pub mod contestant;

pub mod invariant;

pub mod scenario;

pub mod check;

pub use names::{UnknownName, find};
pub use parallel::map_parallel;

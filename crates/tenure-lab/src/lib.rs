//! Compares election strategies in simulated time, and checks that they keep their guarantees.
//!
//! The simulation runs the library's own state machines: the candidates by a lease, among peers and
//! by both, the rules of the store, and the failure detectors. A seed gives the same run on every
//! machine. The command `tenure-lab` is the user interface.
//!
//! It does not check real disks, sockets and threads. Tests with real processes cover those; a
//! [`proxy`] cuts and delays their network.

pub mod sim;

pub mod contestant;

pub mod baseline;

pub mod detector;

pub mod fault;

pub mod invariant;

pub mod check;

pub mod scenario;

pub mod measure;

pub mod paper;

pub mod links;

pub mod report;

pub mod proxy;

mod names;

pub use names::UnknownName;

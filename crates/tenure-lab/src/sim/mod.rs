//! A simulation by discrete events: machines with clocks, disks and tasks, and the ways between them.
//!
//! What runs on the machines are the state machines of `tenure_core` themselves, and beside them the
//! least that a driver must be ([`Process`]). Time is virtual: a [`World`] goes from one event to the
//! next. All chance comes from a seed, and nothing depends on an address, a hash or a real clock, so a
//! seed gives the same [`Event`]s and the same trace everywhere.

mod rng;
mod time;

mod network;
mod payload;
mod process;
mod uplink;

mod history;
mod host;
mod queue;
mod traffic;
mod world;

mod inject;

pub use history::{EventKind, HistoryEvent};
pub use network::{Latency, Link, Network};
pub use payload::{Payload, RequestId};
pub use process::{
    Context, DurableState, LeadershipClaim, Process, ProcessEffect, ProcessFactory, ProcessInput,
};
pub use rng::Rng;
pub use time::{Clock, Time};
pub use traffic::{Traffic, TrafficLog, TrafficSum};
pub use uplink::Sending;
pub use world::{TaskStop, World, WorldConfig};

#[cfg(test)]
mod tests;

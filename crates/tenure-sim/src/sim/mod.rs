//! A discrete-event simulation of hosts with clocks, disks and tasks, and of the network between
//! them.
//!
//! A host runs a [`Process`], with [`SimMessage`]s and a [`DurableState`] of its own kinds: the simulation
//! knows no algorithm. Time is virtual: a [`World`] advances from one event to the next. All randomness comes
//! from a seed, and nothing depends on an address, a hash or a real clock. So a seed gives the same
//! [`HistoryEvent`]s and the same trace on every machine.

mod rng;
mod time;

mod message;
mod network;
mod process;
mod uplink;

mod fault;

mod config;
mod history;
mod host;
mod queue;
mod traffic;

mod world;

mod deliver;
mod execute;
mod inject;

pub use config::{TaskStop, WorldConfig};
pub use fault::{Fault, Target};
pub use history::{HistoryEvent, HistoryEventKind};
pub use message::SimMessage;
pub use network::{Latency, Link, Network};
pub use process::{
    Context, DurableState, LeadershipClaim, Process, ProcessEffect, ProcessFactory, ProcessInput,
};
pub use rng::Rng;
pub use time::{Clock, Time};
pub use traffic::{Traffic, TrafficLog};
pub use uplink::Sending;
pub use world::World;

#[cfg(test)]
mod tests;

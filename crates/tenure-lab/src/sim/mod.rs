//! A simulation by discrete events: machines with clocks, disks and tasks, and the ways between them.
//!
//! What runs on the machines are the state machines of `tenure_core` themselves, and beside them the
//! least that a driver must be ([`Process`]). Time is virtual: a [`World`] goes from one event to the
//! next. All chance comes from a seed, and nothing depends on an address, a hash or a real clock, so a
//! seed gives the same [`Event`]s and the same trace everywhere.

mod dice;
mod time;

mod line;
mod network;
mod payload;
mod process;

mod history;
mod place;
mod queue;
mod traffic;
mod world;

mod strike;

pub use dice::Dice;
pub use history::{Event, What};
pub use line::Sending;
pub use network::{Latency, Link, Network};
pub use payload::{Call, Payload};
pub use process::{Cast, Claim, Effect, Here, Input, Process, Stable};
pub use time::{Clock, Time};
pub use traffic::{Ledger, Sent, Traffic};
pub use world::{Habits, Task, World};

#[cfg(test)]
mod tests;

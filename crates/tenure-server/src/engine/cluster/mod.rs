//! Servers over one log: at most one of them appends.
//!
//! ```text
//! Standby --took over--> TakenOver { loaded, log } --> the store --drops OwnedLog--> Standby
//!    |                                |
//!    +--- ClusterLog: the ring, and the Ownership that decides who appends ---+
//! ```
//!
//! A [`Standby`] follows the log and keeps a replica of the leases. When it has taken the log over, the
//! store gets an [`OwnedLog`], which appends, and the replica goes to a task that writes snapshots.
//! When the store drops the log, the standby goes on with both.

mod bases;
mod home;
mod log;
mod operator;
mod owner;
mod report;
mod serving;
#[cfg(feature = "simulation")]
pub mod simulation;
mod standby;
mod status;
#[cfg(test)]
pub(crate) mod tests;

pub(super) use home::LogHome;
pub(super) use operator::OperatorLog;
pub use operator::RecoverError;
pub(crate) use serving::OwnershipClock;
pub(super) use standby::StandbyError;
pub(crate) use standby::{Ended, Standby};
pub(crate) use status::ClusterStatus;

//! An engine over a log that several servers share.
//!
//! ```text
//! Follower --took over--> Reign { loaded, engine } --> the store --drop--> Follower
//!    |                                |
//!    +--- Chain: SharedLog + Ownership (the machine decides, the chain sends) ---+
//! ```
//!
//! A [`Follower`] reads the head and keeps a copy of the leases. When the machine has taken the log
//! over, it loads the rest and hands its connection to a [`SharedEngine`], which commits batches
//! and writes places. When the store drops the engine, the follower goes on with the connection.

mod backlog;
mod backup;
mod chain;
mod change;
mod follow;
mod head;
mod leftover;
pub(crate) mod log;
#[cfg(test)]
pub(crate) mod memory;
mod owner;
mod pending;
mod places;
mod recover;
mod replay;
mod restore;
mod retire;
mod retrying;
mod serving;
mod shadow;
mod status;
mod stop;

pub(crate) use backup::backup;
pub(crate) use follow::{Ended, FollowError, Follower};
pub(crate) use head::engine_of;
pub use recover::RecoverError;
pub(crate) use recover::{init, recover};
pub(crate) use restore::restore;
pub(crate) use retrying::RetryingLog;
#[cfg(test)]
pub(crate) use serving::OwnershipClock;
pub(crate) use serving::Serving;
pub(crate) use status::ClusterStatus;
pub(crate) use stop::Stop;

#[cfg(test)]
pub(crate) mod conformance;
#[cfg(test)]
mod tests;

//! Leader election for worker services: one process out of many does a job, and stops doing it
//! before anyone else starts.
//!
//! A [`Candidate`] competes for an election in a lease store and runs a task while it leads:
//!
//! ```no_run
//! use tenure::{Candidate, Config};
//!
//! # async fn coordinate(leadership: tenure::Leadership) {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let candidate = Candidate::connect(Config::load("tenure.toml")?).await?;
//! candidate
//!     .run_while_leader(tenure::shutdown_signal()?, |leadership| async move {
//!         coordinate(leadership).await;
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! One word of the configuration changes the way in which it is elected
//! ([`config::Strategy`]), and nothing else: a lease in a store, the lease of a blob on Azure, an election
//! among peers without a store, or nobody else at all. [`Candidate::guarantee`] says what that promises.
//!
//! **What it promises**, with a lease. While [`Leadership::is_valid`] says yes, the store has granted the lease
//! to nobody else, as long as the clocks of this machine and the store's differ in rate by less
//! than the margin of the [`Timings`]. The task is told to stop, and aborted, before that ends.
//!
//! **What it does not promise.** No lease can stop a write that is already on its way: a process may
//! be frozen between its check and its write. Whatever must not be written by an old leader has to
//! be written with the [epoch](Leadership::epoch), to a receiver that refuses smaller ones:
//! [`fence`].
//!
//! Features, both off by default: `axum` for `Candidate::router`, routes that say who leads (what the
//! library has of the crate axum in any case are the routes by which peers elect); `tower` for
//! `fence::FenceLayer`, which refuses stale requests in front of an HTTP service.

mod candidate;
mod guarantee;
mod health;
mod leadership;
mod renewer;
mod shutdown;
mod task;

mod azure;
pub mod config;
pub mod fence;
pub mod observe;
pub mod peers;
#[cfg(feature = "axum")]
pub mod router;
pub mod store;
pub mod testing;

mod clock;
mod peer_transport;
mod random;
mod runtime;
mod term;
mod term_guard;

pub use candidate::{Candidate, LeadershipGuard, RunError, Term};
pub use config::{Config, ConfigError, OnOverrun};
pub use guarantee::Guarantee;
pub use health::HealthCheck;
pub use leadership::{Leadership, NotLeading, ProclaimError};
pub use renewer::{ConnectError, Renewer};
pub use shutdown::shutdown_signal;
pub use task::TaskResult;
pub use tenure_core::lease::candidate::{EndReason, Timings, TimingsError, TimingsOptions};
pub use tenure_core::{CandidateId, ElectionName, Epoch, Name};

/// The README's code is compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

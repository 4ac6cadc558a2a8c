//! Leader election for worker services: one process out of many does a job, and stops doing it
//! before another one starts.
//!
//! A [`Candidate`] competes in an election and runs a task while it leads:
//!
//! ```no_run
//! use tenure::{Candidate, Config};
//!
//! # async fn coordinate(leadership: tenure::Leadership) {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let candidate = Candidate::start(Config::load("tenure.toml")?).await?;
//! candidate
//!     .run_while_leader(tenure::shutdown_signal()?, |leadership| async move {
//!         coordinate(leadership).await;
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Words
//!
//! Candidates of one **election** compete. The winner **leads** for a **term**, under an **epoch**:
//! a number that grows with each term, and the fencing token for its writes. With a lease, a
//! **lease service** grants the **lease** of that name to one candidate at a time, which renews it
//! and may lose it. [`Leadership`] represents a term for its task, and [`TermSummary`] represents a
//! term that has ended.
//!
//! # Guarantees
//!
//! While [`Leadership::is_valid`] is true, the lease is granted to no other candidate, as long as
//! the clocks of this machine and the store differ in rate by less than the margin of the
//! [`Timings`]. The task is notified before that ends, and aborted if it does not stop in time.
//!
//! No lease can stop a write that is already on its way: a process may freeze between its check and
//! its write. Send the [epoch](Leadership::epoch) with each write to a receiver that rejects
//! smaller epochs; see [`fence`].
//!
//! # Strategies
//!
//! [`config::Strategy`] determines how a candidate is elected; the program stays the same.
//! [`Candidate::guarantee`] returns the guarantee of the strategy.
//!
//! | strategy | needs |
//! |---|---|
//! | `lease` | a lease store: `tenure serve`, of the crate `tenure-cli` |
//! | `azure-blob` | a blob of an Azure storage account (feature `azure`) |
//! | `kubernetes` | a `Lease` object of a Kubernetes cluster (feature `kubernetes`) |
//! | `bully` | a node id, the list of peers, a state directory and a shared key for each member (feature `peers`) |
//! | `both` | a store and peers, to migrate from one to the other |
//! | `static` | nothing: the only candidate leads |
//!
//! # More
//!
//! - **Several elections in one process**: [`CandidateRuntime`].
//! - **Work outside of the task**, or that blocks: [`Leadership::spawn`],
//!   [`Leadership::spawn_blocking`] and [`Leadership::hold`]. [`OnOverrun`] is the action if it does
//!   not stop.
//! - **A task that hangs**: a progress deadline ([`TimingsOptions::progress_deadline`],
//!   [`Leadership::report_progress`]) or a [`HealthCheck`] ends the term.
//! - **Watching an election**: [`observe`].
//! - **Ended terms**: [`Config::with_term_hook`].
//! - **Metrics**: [`Candidate::metrics`], and the feature `metrics` for exporters ([`metrics`]).
//! - **Testing**: [`testing`] has a store in memory and a clock that the test moves.
//! - **The store's API for tools**: [`store`].
//! - **Traces** that span a candidate and the store: [`trace`].
//!
//! # Logging
//!
//! The library reports through [`tracing`] only: leadership gained and lost at INFO, failing
//! renewals, an unreachable store and failed tasks at WARN. Install a subscriber, such as
//! `tracing_subscriber::fmt().with_writer(std::io::stderr).init()`, to see these events.
//!
//! # Features
//!
//! All features but `metrics` are enabled by default. `default-features = false` provides only a candidate for
//! leases over plain http, without the need for a C compiler.
//!
//! | feature | adds |
//! |---|---|
//! | `config-file` | [`Config`] from TOML files and the environment |
//! | `tls` | https, by rustls and aws-lc (which needs a C compiler) |
//! | `peers` | the strategies `bully` and `both`; members listen by axum |
//! | `azure` | the strategy `azure-blob` |
//! | `kubernetes` | the strategy `kubernetes`, and `tls` |
//! | `router` | `Candidate::router`: HTTP routes that show the leader, by axum |
//! | `metrics` | publishes the [`Metrics`] of candidates through the facade of the crate `metrics` |
//! | `tower` | `fence::FenceLayer`: rejects stale requests in front of an HTTP service |
//!
//! # Layers of the source
//!
//! Each folder uses only the folders after it. `api` has the types that an application names.
//! `election` is the thread that renews, with the strategies, the running terms and their metrics.
//! `peers` has the members of an election among peers, and `service` the lease services, each with
//! the settings of `config`. `http` has the clients of the store, credentials and certificates, and
//! `base` has errors, clocks and other types that all layers share.
//!
//! # Platforms
//!
//! Linux, Android and Apple's systems: they have a clock that counts while the machine is
//! suspended. Tests run on Linux. Other systems, such as Windows, are refused at compile time.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
compile_error!(
    "tenure does not support this operating system: it counts leases on a clock that includes the \
     time in suspension, and knows such clocks of Linux, Android and Apple's systems only"
);

mod api;
mod base;
pub mod config;
mod election;
mod http;
#[cfg(feature = "peers")]
pub mod peers;
mod service;
pub mod testing;

#[cfg(feature = "peers")]
mod peer_page;

#[cfg(feature = "router")]
pub use api::router;
pub use api::{fence, observe};
pub use base::trace;
pub use election::metrics;
pub use http::store;

pub use api::candidate::{Candidate, LeadershipGuard};
pub use api::candidate_runtime::CandidateRuntime;
pub use api::leadership::{Hold, Leadership};
pub use api::shutdown::shutdown_signal;
pub use base::guarantee::Guarantee;
pub use base::health::HealthCheck;
pub use base::http_error::HttpClientError;
pub use base::task::TaskResult;
pub use base::term::TermSummary;
#[cfg(feature = "peers")]
pub use base::term::{QuorumKind, TermQuorum};
#[cfg(feature = "config-file")]
pub use config::ConfigError;
#[doc(inline)]
pub use config::{Config, OnOverrun};
pub use election::error::{NotLeading, ProclaimError, RunError};
#[doc(inline)]
pub use election::metrics::Metrics;
pub use http::client_certificate::{ClientCertificate, ClientCertificateError};
pub use http::credentials::{Credentials, CredentialsError};
pub use http::root_certificates::{RootCertificates, RootCertificatesError};
pub use service::StartError;
pub use tenure_core::lease::candidate::{EndReason, Timings, TimingsError, TimingsOptions};
pub use tenure_core::{
    CandidateId, CandidateIdError, ElectionName, Epoch, Name, NameError, NodeId, UnixMillis,
};

pub mod backend {
    //! Lease services: they grant the leases that candidates compete for.
    //!
    //! [`LeaseService`] shows the lease of any service to tools.

    pub use crate::service::{AwaitedTerm, BackendError, LeaseService};
}

/// The settings of candidates as the command `tenure` reads them. Not part of the public API: it
/// may change in any release.
#[cfg(feature = "config-file")]
#[doc(hidden)]
pub mod __cli {
    pub use crate::base::link_free_path::link_free_path;
    #[cfg(feature = "peers")]
    pub use crate::config::bully_settings::{cluster_of, peers_of};
    pub use crate::config::load::{credentials_of, from_settings, roots_of, servers_of};
    pub use crate::config::permissions::{warn_of_folder, warn_of_secret};
    pub use crate::config::settings::{
        EXAMPLE, Scope, Settings, is_secret, secret_variables, warn_of_unknown_variables,
    };
    #[cfg(any(feature = "peers", feature = "router"))]
    pub use crate::http::browser_guard::guard;
    pub use tenure_core::file_path::check as check_path;

    pub use crate::api::shutdown::SAME_REQUEST;
    pub use crate::election::metrics::{MetricFamily, MetricSample, MetricValue};
    pub use crate::election::overrun::set_flush;
    #[cfg(feature = "peers")]
    pub use crate::peers::transport::{AcceptedStream, listen};
}

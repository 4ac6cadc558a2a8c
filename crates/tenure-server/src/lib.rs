//! The lease store: a table of leases in memory, an engine that makes changes durable, and the HTTP
//! API in front of both.
//!
//! It promises that a lease has at most one holder at any time of this store's monotonic clock,
//! that epochs only grow, and that every response depends only on durable state. It does not
//! promise that a holder has stopped when its lease ended: candidates stop themselves, and
//! receivers check epochs. It refuses to start when another store uses the same directory. It has
//! no access control unless [`Server::with_access`] sets the rules of an access file.
//!
//! ```text
//! http --> store --> table (shards) -- lease::apply (core) --> commit queue --> engine (disk)
//!            |                                                    |
//!            +------------- waits until durable <-----------------+
//!            |                                                    |
//!            +-- streams <----------------- events <--------------+
//! ```
//!
//! Each module uses only those to its left:
//!
//! ```text
//! model <-- engine <-- commit queue <-- table <-- store <-- http
//! ```
//!
//! # Examples
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tenure_server::{StoreConfig, Server, Store};
//!
//! let store = Store::open(StoreConfig::folder("/var/lib/tenure"))?;
//! let server = Server::bind(store, "127.0.0.1:7878".parse()?)?;
//! server.serve(std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```

mod cluster;
mod config;
mod connections;
mod head_deadline;
mod overflow;
mod server;
mod tls;

mod http;
mod ui;

mod store;
mod table;

mod commit_queue;

mod events;

mod engine;

mod model;

pub mod access;
pub mod audit;

mod clock;
mod disk_full;
mod metrics;
mod panics;
mod random;
mod shares;
mod timer;

/// The programs that tests of engines need, from the tests of the workspace.
#[cfg(all(test, unix))]
#[path = "../../../tests/support"]
#[allow(dead_code, unreachable_pub)] // Other tests use the rest.
mod support {
    pub(crate) mod etcd;
    pub(crate) mod needs;
    pub(crate) mod ports;
    pub(crate) mod postgres;
    pub(crate) mod postgres_proxy;
}

pub use clock::WrongClock;
pub use cluster::ClusterMember;
#[cfg(feature = "bucket")]
pub use config::BucketConfig;
pub use config::{
    ClusterAccess, ClusterConfig, Compaction, EtcdConfig, Failover, Home, HomeUrl, PostgresConfig,
    PostgresUrl,
};
pub use config::{LimitError, LimitSetting, Limits, StoreConfig};
pub use engine::RecoverError;
#[cfg(feature = "simulation")]
#[doc(hidden)] // For the simulator.
pub use engine::simulation;
pub use engine::{BackupError, Contents, Document, Existing, OpenError, RestoreError, Restored};
pub use engine::{accept_copy, backup, final_backup, forget_restore, restore, restore_note};
pub use engine::{is_guarded, mark_guarded};
pub use http::{Protocol, Route, is_native, router, routes, set_remote_parent};
#[doc(hidden)] // For the command.
pub use metrics::{Exposition, Sample};
pub use metrics::{MetricsConfig, MetricsConfigError};
pub use model::LeaseKey;
pub use server::{ServeError, Server};
pub use store::{AccessEffect, LargeAnswer, LeaseSnapshot, Store};
pub use tls::{Tls, TlsError};

//! The lease store: a table of leases in memory, an engine that keeps what was acknowledged, and
//! the HTTP API in front of both.
//!
//! It promises that a lease is never held by two at once by this store's own forward-only clock,
//! that epochs only grow, and that no answer leaves before what it rests on is durable. It does not
//! promise that a holder has stopped when its lease ended (the candidate does that, and receivers
//! check epochs), nor anything about more than one server on one folder: it refuses that.
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
//! use tenure_server::{Config, Server, Store};
//!
//! let store = Store::open(Config::embedded("/var/lib/tenure"))?;
//! let server = Server::bind(store, "127.0.0.1:7878".parse()?)?;
//! server.serve(std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```

mod config;
mod connections;
mod server;
mod standing;
mod tls;

mod azure;
mod http;
mod store;
mod table;

mod commit_queue;

mod events;

mod engine;

mod model;

mod clock;
mod panics;
mod random;
mod scans;
mod timer;

pub use azure::{Azure, AzureAccount, AzureBearer, AzureConfig, AzureConfigError, AzureError};
pub use azure::{backup, restore};
pub use clock::WrongClock;
pub use config::{Config, EngineConfig, LimitError, Limits};
pub use engine::{BackupError, Contents, Existing, OpenError, RestoreError, Restored};
pub use http::router;
pub use server::{ServeError, Server};
pub use store::Store;
pub use tls::{Tls, TlsError};

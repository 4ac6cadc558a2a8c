//! Metrics: counters and histograms, and their text form for Prometheus.
//!
//! The numbers are counted where the events happen. A scrape reads them: each module writes its own
//! metrics into an [`Exposition`], and `http/metrics.rs` puts the parts together. `docs/metrics.md`
//! lists all of them.
//!
//! Labels have closed sets of values, except for the names of leases, whose number is limited: see
//! [`MetricsConfig`]. No label value comes from a request.

mod cluster;
mod config;
mod connections;
mod counters;
mod exposition;
mod histogram;
mod leases;
mod process;
mod reloads;
mod requests;
mod store;
mod waited;

pub(crate) use cluster::{AppendResult, ClusterMetrics};
pub use config::{MetricsConfig, MetricsConfigError};
pub(crate) use connections::{ConnectionMetrics, ConnectionPlace, ConnectionRefusal};
pub(crate) use counters::{CounterSet, Label};
pub(crate) use exposition::unix_seconds;
pub use exposition::{Exposition, Sample};
pub(crate) use leases::{LeaseSample, LeaseSurvey};
pub(crate) use process::expose as expose_process;
pub(crate) use reloads::ReloadStatus;
pub(crate) use requests::RequestMetrics;
pub(crate) use store::{RenewalKind, StoreMetrics};
pub(crate) use waited::{Waited, measure, waiting};

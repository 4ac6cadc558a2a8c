//! The configuration of a store.

mod cluster;
mod limits;

use std::path::PathBuf;

#[cfg(feature = "bucket")]
pub use cluster::BucketConfig;
pub use cluster::{
    ClusterAccess, ClusterConfig, Compaction, EtcdConfig, Failover, Home, HomeUrl, PostgresConfig,
    PostgresUrl,
};
pub use limits::{LimitError, LimitSetting, Limits};

/// The configuration of a [`Store`](crate::Store).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreConfig {
    /// The data directory. A change is on disk there before the store acknowledges it. The store
    /// creates the directory if it does not exist. Only one store at a time may use it.
    ///
    /// Without a data directory the leases are in memory only: they are lost when the process ends.
    /// That is for tests and experiments.
    pub data_dir: Option<PathBuf>,
    /// The limits.
    pub limits: Limits,
}

impl StoreConfig {
    /// Creates the configuration of a store in memory.
    #[must_use]
    pub fn memory() -> Self {
        Self::default()
    }

    /// Creates the configuration of a store in the directory `data_dir`.
    #[must_use]
    pub fn folder(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: Some(data_dir.into()),
            ..Self::default()
        }
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
}

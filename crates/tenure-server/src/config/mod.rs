//! The configuration of a store.

mod limits;

use std::path::PathBuf;

pub use limits::{LimitError, LimitSetting, Limits};

/// The configuration of a [`Store`](crate::Store).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Where the store keeps its leases.
    pub engine: EngineConfig,
    /// The limits.
    pub limits: Limits,
}

/// Where a store keeps its leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineConfig {
    /// In memory only: they are lost when the process ends. For tests and experiments.
    Memory,
    /// In a database in a directory of its own, on disk before the store acknowledges a change.
    Embedded {
        /// The directory. The store creates it if it does not exist; one store at a time may use
        /// it.
        data_dir: PathBuf,
    },
}

impl StoreConfig {
    /// A store with this engine and the default limits.
    #[must_use]
    pub fn new(engine: EngineConfig) -> Self {
        Self {
            engine,
            limits: Limits::default(),
        }
    }

    /// A store in memory.
    #[must_use]
    pub fn memory() -> Self {
        Self::new(EngineConfig::Memory)
    }

    /// A store in the directory `data_dir`.
    #[must_use]
    pub fn embedded(data_dir: impl Into<PathBuf>) -> Self {
        Self::new(EngineConfig::Embedded {
            data_dir: data_dir.into(),
        })
    }

    /// The same with these limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
}

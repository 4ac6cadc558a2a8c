//! What a store is made from.

mod limits;

use std::path::{Path, PathBuf};

pub use limits::{LimitError, Limits};

/// What a [`Store`](crate::Store) is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where leases are kept.
    pub engine: EngineConfig,
    /// How much of everything it takes.
    pub limits: Limits,
}

/// Where leases are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineConfig {
    /// In memory only: everything is forgotten when the process ends. For tests and trying out.
    Memory,
    /// In a database in a folder of its own, on disk before anything is acknowledged.
    Embedded {
        /// The folder. It is made if it does not exist; one store at a time may use it.
        data_dir: PathBuf,
    },
}

impl EngineConfig {
    /// The directory that the store keeps its leases in, if it has one.
    #[must_use]
    pub fn data_dir(&self) -> Option<&Path> {
        match self {
            Self::Memory => None,
            Self::Embedded { data_dir } => Some(data_dir),
        }
    }
}

impl Config {
    /// A store on this engine, with the usual limits.
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

    /// A store in the folder `data_dir`.
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

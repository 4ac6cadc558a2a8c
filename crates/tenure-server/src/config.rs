//! What a store is made from.

use std::path::PathBuf;

/// What a [`Store`](crate::Store) is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where leases are kept.
    pub engine: EngineConfig,
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

impl Config {
    /// A store in memory.
    #[must_use]
    pub const fn memory() -> Self {
        Self {
            engine: EngineConfig::Memory,
        }
    }

    /// A store in the folder `data_dir`.
    #[must_use]
    pub fn embedded(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            engine: EngineConfig::Embedded {
                data_dir: data_dir.into(),
            },
        }
    }
}

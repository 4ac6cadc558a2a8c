//! The configuration of a store.

mod limits;

use std::path::PathBuf;

pub use limits::{LimitError, LimitSetting, Limits};

/// The configuration of a [`Store`](crate::Store).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreConfig {
    /// The directory of the store's database, in which a change is on disk before the store acknowledges it.
    /// The store creates it if it does not exist; one store at a time may use it.
    ///
    /// Without a directory the leases are in memory only: they are lost when the process ends. For tests and
    /// experiments.
    pub data_dir: Option<PathBuf>,
    /// The limits.
    pub limits: Limits,
}

impl StoreConfig {
    /// A store in memory.
    #[must_use]
    pub fn memory() -> Self {
        Self::default()
    }

    /// A store in the directory `data_dir`.
    #[must_use]
    pub fn embedded(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: Some(data_dir.into()),
            ..Self::default()
        }
    }

    /// The same with these limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
}

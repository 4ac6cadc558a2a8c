//! The table `[serve]`: settings of the store.

use std::net::SocketAddr;
use std::path::PathBuf;

use tenure_config::{ConfigError, Settings};
use tenure_server::{ClusterConfig, Limits};

use super::home::{self, StoreHome};
use super::{cluster, limits};
use crate::runtime;

/// The checked settings of the store.
#[derive(Debug)]
pub(crate) struct StoreSettings {
    pub(crate) listen: SocketAddr,
    /// `None` for a store in memory, and for a server of a cluster.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) cluster: Option<ClusterConfig>,
    pub(crate) limits: Limits,
    /// The number of threads that answer requests.
    pub(crate) worker_threads: usize,
}

impl StoreSettings {
    pub(crate) fn new(settings: &Settings) -> Result<Self, ConfigError> {
        let listen = settings.address("serve.listen")?.ok_or_else(|| {
            let reason = "must not be empty: write an address and a port, or leave the key out";
            settings.invalid("serve.listen", reason.into())
        })?;
        let mut limits = Limits::default();
        limits::read(settings, "serve", limits.settings())?;
        let home = home::read(settings)?;
        let workers = settings.number("serve.worker_threads")?;
        Ok(Self {
            listen,
            cluster: cluster::config(settings, &home, listen)?,
            data_dir: match home {
                StoreHome::Folder(path) => Some(path),
                StoreHome::Memory | StoreHome::Shared(_) => None,
            },
            limits,
            worker_threads: workers.unwrap_or_else(runtime::workers),
        })
    }
}

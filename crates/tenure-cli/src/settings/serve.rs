//! The table `[serve]`: settings of the store.

use std::net::SocketAddr;
use std::path::PathBuf;

use tenure_config::{ConfigError, Settings};
use tenure_server::{ClusterConfig, Limits};

use super::{cluster, limits};
use crate::runtime;

/// The engine with a data directory.
const EMBEDDED: &str = "embedded";

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
        let engine = settings.text("serve.engine")?.unwrap_or_default();
        let data_dir = data_dir(settings)?;
        let workers = settings.number("serve.worker_threads")?;
        Ok(Self {
            listen,
            data_dir: data_dir.filter(|_| engine == EMBEDDED),
            cluster: cluster::config(settings, engine, listen)?,
            limits,
            worker_threads: workers.unwrap_or_else(runtime::workers),
        })
    }
}

fn data_dir(settings: &Settings) -> Result<Option<PathBuf>, ConfigError> {
    let data_dir = settings.required_path("serve.data_dir")?;
    if data_dir
        .as_deref()
        .is_some_and(|path| path.exists() && !path.is_dir())
    {
        let reason = "must be a directory, and this is a file";
        return Err(settings.invalid("serve.data_dir", reason.into()));
    }
    Ok(data_dir)
}

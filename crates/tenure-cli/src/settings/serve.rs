//! The table `[serve]`: settings of the store.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use tenure::__cli::Settings;
use tenure::config::ConfigError;
use tenure_server::{ClusterConfig, Limits};

use super::{cluster, limits};
use crate::runtime;

/// The names of the engines.
pub(crate) const ENGINES: [&str; 4] = [EMBEDDED, MEMORY, cluster::ETCD, cluster::POSTGRES];
pub(crate) const EMBEDDED: &str = "embedded";
pub(crate) const MEMORY: &str = "memory";
const DEFAULT_LISTEN: &str = "127.0.0.1:7400";
const DEFAULT_DATA_DIR: &str = "tenure-data";

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
        let listen = settings.with("serve.listen", |text| resolve(text, DEFAULT_LISTEN))?;
        let listen =
            listen.unwrap_or_else(|| DEFAULT_LISTEN.parse().expect("the default is an address"));
        let mut limits = Limits::default();
        limits::read(settings, "serve", limits.settings())?;
        let engine = settings.with("serve.engine", |text| {
            let known = ENGINES.into_iter().find(|known| *known == text);
            known.ok_or_else(|| format!("must be one of {}", ENGINES.join(", ")))
        })?;
        let engine = engine.unwrap_or(EMBEDDED);
        let data_dir = data_dir(settings)?;
        let workers = settings.number("serve.worker_threads", 1..=1024)?;
        Ok(Self {
            listen,
            data_dir: (engine == EMBEDDED).then_some(data_dir),
            cluster: cluster::config(settings, engine, listen)?,
            limits,
            worker_threads: workers.unwrap_or_else(runtime::workers),
        })
    }

    /// The name of the engine.
    pub(crate) fn engine(&self) -> &'static str {
        match (&self.cluster, &self.data_dir) {
            (Some(cluster), _) => cluster.engine.name(),
            (None, Some(_)) => EMBEDDED,
            (None, None) => MEMORY,
        }
    }
}

/// Parses an address. The error shows this example of a valid one.
pub(super) fn resolve(text: &str, example: &str) -> Result<SocketAddr, String> {
    text.to_socket_addrs()
        .map_err(|error| error.to_string())
        .and_then(|mut addresses| addresses.next().ok_or_else(|| "no address".into()))
        .map_err(|error| format!("{error}; write an address and a port, such as {example}"))
}

fn data_dir(settings: &Settings) -> Result<PathBuf, ConfigError> {
    let data_dir = settings.required_path("serve.data_dir")?;
    if data_dir
        .as_deref()
        .is_some_and(|path| path.exists() && !path.is_dir())
    {
        let reason = "must be a directory, and this is a file";
        return Err(settings.invalid("serve.data_dir", reason.into()));
    }
    Ok(data_dir.unwrap_or_else(|| DEFAULT_DATA_DIR.into()))
}

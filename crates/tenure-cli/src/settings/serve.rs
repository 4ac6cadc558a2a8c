//! The table `[serve]`: settings of the store.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use tenure_config::{ConfigError, Settings};
use tenure_server::{ClusterConfig, Limits};

use super::{cluster, limits};

/// The engine with a data directory.
const EMBEDDED: &str = "embedded";

/// The address in examples.
const EXAMPLE: &str = "127.0.0.1:7400";

/// The checked settings of the store.
#[derive(Debug)]
pub(crate) struct StoreSettings {
    pub(crate) listen: SocketAddr,
    /// `None` for a store in memory, and for a server of a cluster.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) cluster: Option<ClusterConfig>,
    pub(crate) limits: Limits,
}

impl StoreSettings {
    pub(crate) fn new(settings: &Settings) -> Result<Self, ConfigError> {
        let listen = settings.with("serve.listen", |text| resolve(text, EXAMPLE))?;
        let listen = listen.expect("it has a default");
        let mut limits = Limits::default();
        limits::read(settings, "serve", limits.settings())?;
        let engine = settings.text("serve.engine")?.unwrap_or_default();
        let data_dir = data_dir(settings)?;
        Ok(Self {
            listen,
            data_dir: data_dir.filter(|_| engine == EMBEDDED),
            cluster: cluster::config(settings, engine, listen)?,
            limits,
        })
    }
}

/// Parses an address. The error shows this example of a valid one.
pub(super) fn resolve(text: &str, example: &str) -> Result<SocketAddr, String> {
    text.to_socket_addrs()
        .map_err(|error| error.to_string())
        .and_then(|mut addresses| addresses.next().ok_or_else(|| "no address".into()))
        .map_err(|error| format!("{error}; write an address and a port, such as {example}"))
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

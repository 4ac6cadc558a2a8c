//! The place of a store's leases, for commands that read or write them without a server.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use clap::Args;
use tenure_config::{ConfigError, Settings};
use tenure_server::ClusterConfig;

use crate::settings::STORE;
use crate::settings::serve::StoreSettings;

/// The flags that name the place.
#[derive(Debug, Args)]
pub(super) struct PlaceArgs {
    /// Folder of the store, if its home is one
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Configuration file (TOML) of the store, or of a server of the cluster: it names the home
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The place of a store's leases.
#[derive(Debug)]
pub(super) enum Place {
    Folder(PathBuf),
    Cluster(Box<ClusterConfig>),
}

impl PlaceArgs {
    /// Whether no flag names a place.
    pub(super) const fn is_empty(&self) -> bool {
        self.data_dir.is_none() && self.config.is_none()
    }

    /// The place that these flags, the configuration file and the environment name. A `new` one, which
    /// the command creates, has no default.
    pub(super) fn place(&self, new: bool) -> Result<Place, ConfigError> {
        if let (Some(data_dir), None) = (&self.data_dir, &self.config) {
            return Ok(Place::Folder(data_dir.clone()));
        }
        let mut settings = Settings::load(STORE, self.config.as_deref())?;
        let data_dir = self.data_dir.as_deref().map(Path::to_string_lossy);
        settings.set_flag("serve.data_dir", &data_dir.map(Cow::into_owned));
        let mut keys = ["serve.data_dir", "serve.home", "serve.home_file"].iter();
        if new && self.config.is_none() && keys.all(|key| settings.origin(key).is_none()) {
            let reason = "name the place of the new store: --data-dir DIR, or --config FILE";
            return Err(ConfigError::missing("serve.data_dir", reason));
        }
        let store = without_server(&mut settings)?;
        match (store.cluster, store.data_dir) {
            (Some(cluster), _) => Ok(Place::Cluster(cluster.into())),
            (None, Some(data_dir)) => Ok(Place::Folder(data_dir)),
            (None, None) => {
                let reason = "memory keeps nothing that could be in a backup: name a folder, PostgreSQL or \
                              etcd";
                Err(settings.invalid("serve.home", reason.into()))
            }
        }
    }
}

/// The settings of a store for a command that serves nothing, so the address of the server does not
/// matter.
pub(super) fn without_server(settings: &mut Settings) -> Result<StoreSettings, ConfigError> {
    settings.unset("cluster.advertise");
    settings.unset("serve.listen");
    StoreSettings::new(settings)
}

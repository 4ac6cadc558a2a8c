//! `tenure serve`: serves a lease store.

mod open_files;

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tenure::__cli::{Scope, Settings};
use tenure::config::{ConfigError, Origin};
use tenure_azure::server::{Azure, AzureConfig, ServedAccount};
use tenure_server::{Server, Store, StoreConfig, Tls};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::settings::serve::{self, StoreSettings};
use crate::settings::{azure, tls};
use crate::{output, parent, permissions, runtime};

/// Serve a lease store
///
/// Settings can also be in the table "serve" of the configuration file, or in TENURE_LISTEN,
/// TENURE_DATA_DIR and TENURE_ENGINE. When the store is ready it prints one line on stdout.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on; port 0 takes a free port [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Data directory of the embedded engine [default: tenure-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Storage of leases: on disk, or in memory (lost at exit, for development) [default: embedded]
    #[arg(long, value_parser = serve::ENGINES)]
    engine: Option<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Certificate of the store (PEM): serve TLS only; with --tls-key
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<String>,
    /// Key of the certificate (PEM)
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Also serve the Azure Blob lease protocol, for the accounts in the table "azure" of the
    /// configuration file or in TENURE_AZURE_ACCOUNTS
    #[arg(long)]
    azure: bool,
    /// Like --azure, and also for the well-known account of emulators, devstoreaccount1; on a
    /// loopback address only
    #[arg(long)]
    azure_dev: bool,
    /// End when this process, which started this one, ends
    #[arg(long, hide = true)]
    parent: Option<i32>,
}

/// How often to check for a new certificate.
const CERTIFICATE_CHECK_INTERVAL: Duration = Duration::from_secs(30);

impl Serve {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if let Some(parent) = self.parent {
            parent::end_with(parent)?;
        }
        let settings = self.settings()?;
        let StoreSettings {
            listen,
            data_dir,
            limits,
        } = StoreSettings::new(&settings)?;
        for warning in limits.warnings() {
            warn!("{warning}");
        }
        let tls = tls::open(&settings)?;
        if let Some(key) = tls::file(&settings, "tls.key")? {
            permissions::check_key(key.as_ref());
        }
        let azure = self.azure(&settings, listen, tls.is_some())?;
        if !listen.ip().is_loopback() {
            warn!(%listen, "every client that reaches this address can take and break leases: the store has \
                no authentication");
        }

        if let Some(data_dir) = &data_dir {
            permissions::check_folder(data_dir);
        }
        let limits = open_files::raise_limit(limits);
        let store = Store::open(StoreConfig { data_dir, limits })?;
        let azure = azure
            .map(|config| Azure::open(&store, config))
            .transpose()?;
        runtime::multi_thread()?.block_on(async {
            let stopped = runtime::stop_signal()?;
            let mut server =
                Server::bind(store, listen).with_context(|| format!("can't listen on {listen}"))?;
            if let Some(azure) = azure {
                server = server.with_protocol(azure);
            }
            let mut scheme = "http";
            if let Some(tls) = tls {
                reload_certificates(tls.clone())?;
                scheme = "https";
                server = server.with_tls(tls);
            }
            let address = server.local_addr()?;
            // A store serves without a reader of stdout.
            let _ = output::line(format_args!("listening on {scheme}://{address}"));
            let shutdown = async move {
                let signal = stopped.await;
                info!(signal, "stopping");
            };
            server
                .serve(shutdown)
                .await
                .context("the store has failed")?;
            Ok(())
        })
    }

    fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = Settings::load(Scope::Store, self.config.as_deref())?;
        settings.set_flag("serve.listen", &self.listen);
        settings.set_flag("serve.engine", &self.engine);
        let data_dir = self.data_dir.as_deref().map(Path::to_string_lossy);
        settings.set_flag("serve.data_dir", &data_dir.map(Cow::into_owned));
        settings.set_flag("tls.certificate", &self.tls_certificate);
        settings.set_flag("tls.key", &self.tls_key);
        Ok(settings)
    }

    /// The configuration of the Azure Blob lease protocol, if a flag or a setting enables it.
    fn azure(
        &self,
        settings: &Settings,
        listen: SocketAddr,
        over_tls: bool,
    ) -> Result<Option<AzureConfig>, ConfigError> {
        if self.azure_dev && !listen.ip().is_loopback() {
            return Err(ConfigError::Invalid {
                origin: Origin::Flag("--azure-dev".into()),
                key: "listen".into(),
                value: listen.to_string(),
                reason: "the key of the development account is public: it needs a loopback address"
                    .into(),
            });
        }
        if !(self.azure || self.azure_dev || settings.has_table("azure")) {
            return Ok(None);
        }
        let mut config = azure::config(settings)?;
        config.over_tls = over_tls;
        if self.azure_dev {
            config.accounts.push(ServedAccount::development());
        }
        azure::check(settings, &config)?;
        Ok(Some(config))
    }
}

/// Reloads the certificate at an interval and on SIGHUP, so that new connections get the one that
/// is in the file. Without TLS, SIGHUP ends the store.
fn reload_certificates(tls: Tls) -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut interval = tokio::time::interval(CERTIFICATE_CHECK_INTERVAL);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                Some(()) = hangup.recv() => {}
                _ = interval.tick() => {}
            }
            let tls = tls.clone();
            let reload = move || match tls.reload() {
                Ok(true) => info!("certificate reloaded for new connections"),
                Ok(false) => {}
                Err(error) => warn!(%error, "can't reload the certificate, keeping the old one"),
            };
            // If the TLS library has panicked, the next reload can still succeed.
            let _ = tokio::task::spawn_blocking(reload).await;
        }
    });
    Ok(())
}

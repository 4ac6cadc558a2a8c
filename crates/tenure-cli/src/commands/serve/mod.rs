//! `tenure serve`: serves a lease store.

mod open_files;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tenure::config::ConfigError;
use tenure_azure::server::{Azure, AzureConfig};
use tenure_server::{EngineConfig, Server, Store, StoreConfig, Tls};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::settings::azure::{self, Accounts};
use crate::settings::serve::{self as table, StoreSettings};
use crate::settings::{lossy, set_flag, tls};
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
    #[arg(long, value_parser = table::ENGINES)]
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
        let StoreSettings {
            listen,
            engine,
            limits,
        } = self.settings()?;
        for warning in limits.warnings() {
            warn!("{warning}");
        }
        let tls = self.tls()?;
        let azure = self.azure(listen, tls.is_some())?;
        if !listen.ip().is_loopback() {
            warn!(%listen, "every client that reaches this address can take and break leases: the store has \
                no authentication");
        }

        if let EngineConfig::Embedded { data_dir } = &engine {
            permissions::check_folder(data_dir);
        }
        let limits = open_files::raise_limit(limits);
        let store = Store::open(StoreConfig::new(engine).with_limits(limits))?;
        let azure = azure.map(|config| Azure::open(&store, config)).transpose()?;
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

    fn settings(&self) -> Result<StoreSettings, ConfigError> {
        let mut settings = table::TABLE.read(self.config.as_deref())?;
        let data_dir = self.data_dir.as_ref();
        let data_dir = data_dir.map(|folder| lossy(folder.as_os_str()));
        set_flag(&mut settings, "listen", "--listen", &self.listen);
        set_flag(&mut settings, "engine", "--engine", &self.engine);
        set_flag(&mut settings, "data_dir", "--data-dir", &data_dir);
        StoreSettings::new(&settings)
    }

    fn tls(&self) -> Result<Option<Tls>, ConfigError> {
        let mut settings = tls::TABLE.read(self.config.as_deref())?;
        let certificate = &self.tls_certificate;
        set_flag(
            &mut settings,
            "certificate",
            "--tls-certificate",
            certificate,
        );
        set_flag(&mut settings, "key", "--tls-key", &self.tls_key);
        let tls = tls::open(&settings)?;
        if let Some(key) = tls::file(&settings, "key")? {
            permissions::check_key(key.as_ref());
        }
        Ok(tls)
    }

    fn azure(
        &self,
        listen: SocketAddr,
        over_tls: bool,
    ) -> Result<Option<AzureConfig>, ConfigError> {
        let settings = azure::TABLE.read(self.config.as_deref())?;
        let accounts = match (self.azure, self.azure_dev) {
            (_, true) => Accounts::Development,
            (true, false) => Accounts::OfSettings,
            (false, false) => Accounts::IfSet,
        };
        azure::open(&settings, accounts, listen, over_tls)
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
            // After a panic in the TLS library the next reload is as good.
            let _ = tokio::task::spawn_blocking(reload).await;
        }
    });
    Ok(())
}

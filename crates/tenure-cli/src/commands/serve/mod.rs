//! `tenure serve`: serves a lease store.

mod keys;
mod open_files;
mod start_rules;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use nix::sys::resource::{Resource, setrlimit};
use tenure::config::ConfigError;
use tenure_azure::server::{Azure, AzureConfig};
use tenure_server::access::{self, Access};
use tenure_server::audit::{Audit, AuditEntry, AuditKind};
use tenure_server::{EngineConfig, Server, Store, StoreConfig, Tls};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{debug, error, info, warn};

use crate::settings::access::{self as access_table, AccessSettings};
use crate::settings::audit as audit_table;
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
    /// Access file: who may do what. The store reads it again when it changes
    #[arg(long, value_name = "FILE")]
    access: Option<PathBuf>,
    /// Serve an access file without TLS beyond loopback: for a proxy in front that ends TLS
    #[arg(long)]
    allow_plain_http: bool,
    /// Let everybody who reaches the store do everything
    #[arg(long)]
    allow_anonymous: bool,
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

/// How often to check for a changed access file: a revoked token is refused within a second.
const ACCESS_CHECK_INTERVAL: Duration = Duration::from_millis(500);

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
        let data_dir = engine.data_dir();
        let access = start_rules::open_access(self.access()?, listen, tls.is_some(), data_dir)?;
        let audit = audit_table::open(&audit_table::TABLE.read(self.config.as_deref())?)?;
        // A core dump would have tokens and lease ids.
        if let Err(error) = setrlimit(Resource::RLIMIT_CORE, 0, 0) {
            debug!(%error, "can't turn off core dumps");
        }

        if let EngineConfig::Embedded { data_dir } = &engine {
            permissions::check_folder(data_dir);
        }
        let limits = open_files::raise_limit(limits);
        let store = Store::open(StoreConfig::new(engine.clone()).with_limits(limits))?;
        if let (true, Some(data_dir)) = (access.is_guarded(), engine.data_dir()) {
            access::mark_guarded(data_dir)
                .with_context(|| format!("can't write into {}", data_dir.display()))?;
        }
        let azure = azure.map(|config| Azure::open(&store, engine.data_dir(), config));
        let azure = azure.transpose()?;
        runtime::multi_thread()?.block_on(async {
            let stopped = runtime::stop_signal()?;
            let mut server =
                Server::bind(store, listen).with_context(|| format!("can't listen on {listen}"))?;
            server = server.with_access(access.clone()).with_audit(audit.clone());
            if let Some(azure) = azure {
                server = server.with_protocol(azure);
            }
            let mut scheme = "http";
            if access.is_guarded() {
                keys::keep_fresh(access.clone()).await;
            }
            if access.is_guarded() || tls.is_some() {
                reload_files(access, tls.clone(), audit.clone())?;
            }
            if let Some(tls) = tls {
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
            audit.record(AuditEntry::new(AuditKind::Start, "done"));
            let served = server.serve(shutdown).await.context("the store has failed");
            let outcome = if served.is_ok() { "done" } else { "failed" };
            audit
                .record_now(AuditEntry::new(AuditKind::Stop, outcome))
                .await;
            served?;
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

    fn access(&self) -> Result<AccessSettings, ConfigError> {
        let mut settings = access_table::TABLE.read(self.config.as_deref())?;
        let file = self.access.as_ref().map(|file| lossy(file.as_os_str()));
        set_flag(&mut settings, "file", "--access", &file);
        let mut settings = AccessSettings::new(&settings)?;
        settings.allow_plain_http |= self.allow_plain_http;
        settings.allow_anonymous |= self.allow_anonymous;
        Ok(settings)
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

/// Reloads the access file and the certificate when they change, and on SIGHUP. Requests and
/// connections from then on get what is in the files. Without both, SIGHUP ends the store.
fn reload_files(access: Access, tls: Option<Tls>, audit: Audit) -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut access_interval = tokio::time::interval(ACCESS_CHECK_INTERVAL);
    let mut certificate_interval = tokio::time::interval(CERTIFICATE_CHECK_INTERVAL);
    tokio::spawn(async move {
        loop {
            let checks_certificate = tokio::select! {
                Some(()) = hangup.recv() => true,
                _ = access_interval.tick() => false,
                _ = certificate_interval.tick() => true,
            };
            let (access, tls, audit) = (access.clone(), tls.clone(), audit.clone());
            let reload = move || {
                reload_access(&access, &audit);
                if let (true, Some(tls)) = (checks_certificate, tls) {
                    reload_certificate(&tls);
                }
            };
            // After a panic in the TLS library the next reload is as good.
            let _ = tokio::task::spawn_blocking(reload).await;
        }
    });
    Ok(())
}

fn reload_access(access: &Access, audit: &Audit) {
    let outcome = match access.reload() {
        Ok(false) => return,
        Ok(true) => {
            info!("access file reloaded");
            "done".to_owned()
        }
        Err(error) => {
            error!(%error, "can't reload the access file, keeping the rules before");
            error.to_string()
        }
    };
    audit.record(AuditEntry::new(AuditKind::Reload, outcome));
}

fn reload_certificate(tls: &Tls) {
    match tls.reload() {
        Ok(true) => info!("certificate reloaded for new connections"),
        Ok(false) => {}
        Err(error) => warn!(%error, "can't reload the certificate, keeping the old one"),
    }
}

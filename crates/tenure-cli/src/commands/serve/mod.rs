//! `tenure serve`: serves a lease store.

pub(crate) mod keys;
mod open_files;
mod supervisor;

use std::borrow::Cow;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal as SignalNumber;
use tenure_azure::server::Azure;
use tenure_config::{ConfigError, Origin, Settings, warn_of_folder};
use tenure_server::access::{Access, AccessError};
use tenure_server::audit::{Audit, AuditEntry, AuditKind};
use tenure_server::{
    ClusterAccess, ClusterMember, Server, Store, StoreConfig, Tls, forget_restore, mark_guarded,
    restore_note,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use self::keys::KeyFetcher;
use crate::new_files::make_folder;
use crate::settings::STORE;
use crate::settings::azure::AzureFlags;
use crate::settings::checked_store::CheckedStore;
use crate::settings::serve::StoreSettings;
use crate::settings::start_rules;
use crate::task_limit::require;
use crate::{output, parent, runtime};

/// Serve a lease store
///
/// Settings can also be in the table "serve" of the configuration file, or in TENURE_LISTEN,
/// TENURE_DATA_DIR and TENURE_HOME. When the store is ready it prints one line on stdout. Under
/// systemd it reports its readiness, and takes the socket of a socket unit.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on; port 0 takes a free port [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Folder of the store, on a local disk; the same as --home folder:DIR [default: tenure-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where the leases are: folder:DIR, memory (lost at exit, for development), or a URL of
    /// PostgreSQL (postgres://) or etcd (etcds://), which several servers share
    #[arg(long, value_name = "HOME")]
    home: Option<String>,
    #[arg(long, hide = true)]
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
    /// Access file: principals and their rights. The store reads it again when it changes
    #[arg(long, value_name = "FILE")]
    access: Option<PathBuf>,
    /// Beyond loopback, serve without TLS: a proxy in front of the store ends TLS
    #[arg(long)]
    allow_plain_http: bool,
    /// Serve without an access file: every client that reaches the store may do everything
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

/// The interval at which the access file is checked for changes. A revoked token is refused within
/// a second.
const ACCESS_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The time from a hang-up to the look whether the terminal has closed.
const TERMINAL_PAUSE: Duration = Duration::from_millis(100);

/// The number of threads of a store beside those that execute its requests: the threads of its
/// home, its timer and its audit log, and threads that read files and look up names.
const THREADS: usize = 8;

/// How often to check for a new certificate.
const CERTIFICATE_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// What is served.
enum Served {
    Store(Store),
    Cluster(ClusterMember),
}

impl Serve {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if let Some(parent) = self.parent {
            parent::end_with(parent)?;
        }
        // Some services rotate their logs or dump their state at these signals. A store ends at none
        // of them, nor at a hang-up, which reloads its files when it is ready.
        let has_terminal = has_terminal() && !runtime::is_ignored(SignalNumber::SIGHUP);
        runtime::handle_without_effect(&[
            SignalNumber::SIGHUP,
            SignalNumber::SIGUSR1,
            SignalNumber::SIGUSR2,
            SignalNumber::SIGALRM,
        ])?;
        let settings = self.settings()?;
        let inherited = supervisor::inherited_listener()?;
        let flags = AzureFlags {
            azure: self.azure,
            azure_dev: self.azure_dev,
        };
        let checked = CheckedStore::new(&settings, flags)?;
        require(checked.serve.worker_threads + THREADS, "tenure serve")?;
        // The rules for the start depend on the address that clients reach.
        let listen = match &inherited {
            Some(listener) => listener
                .local_addr()
                .context("can't read the address of the socket")?,
            None => checked.serve.listen,
        };
        self.check_azure(listen, checked.serve.cluster.is_some())?;
        let access = start_rules::open_access(&checked, listen)?;
        for warning in checked.serve.limits.warnings() {
            warn!("{warning}");
        }
        start_rules::log_exposure(&checked, listen);
        let CheckedStore {
            serve,
            tls,
            access: access_settings,
            metrics,
            audit,
            azure,
        } = checked;
        let StoreSettings {
            data_dir,
            mut cluster,
            limits,
            worker_threads,
            ..
        } = serve;
        if let Some(cluster) = &mut cluster {
            cluster.access = match access.is_guarded() {
                true => ClusterAccess::Guarded,
                false if access_settings.allow_anonymous => ClusterAccess::AnonymousAllowed,
                false => ClusterAccess::Anonymous,
            };
        }
        if access.asks_for_certificates() && tls.is_none() {
            warn!(
                "the access file has [certificates], and without TLS no client has a certificate"
            );
        }
        let audit = match audit {
            Some(config) => Audit::open(config)
                .map_err(|error| settings.invalid("audit.file", error.to_string()))?,
            None => Audit::none(),
        };
        // A core dump would contain tokens and lease ids. The flag also keeps the memory from a
        // program that the system starts for a core dump, in spite of the limit.
        runtime::keep_memory_private();
        if let Err(error) = setrlimit(Resource::RLIMIT_CORE, 0, 0) {
            debug!(%error, "can't turn off core dumps");
        }

        if let Some(data_dir) = &data_dir {
            // The store would make it with what the umask leaves. It reports why it can't be made.
            let _ = make_folder(data_dir, 0o700, None);
            warn_of_folder(data_dir);
        }
        let limits = open_files::raise_limit(limits);
        let served = match cluster {
            Some(cluster) => Served::Cluster(ClusterMember::start(&cluster, limits)?),
            None => Served::Store(Store::open(StoreConfig {
                data_dir: data_dir.clone(),
                limits,
            })?),
        };
        if let (true, Some(data_dir)) = (access.is_guarded(), &data_dir) {
            mark_guarded(data_dir)
                .with_context(|| format!("can't write into {}", data_dir.display()))?;
        }
        let azure = match (&served, azure) {
            (Served::Store(store), Some(config)) => Some(Azure::open(store, config)?),
            _ => None,
        };
        runtime::multi_thread(worker_threads)?.block_on(async {
            let stopped = runtime::stop_signal()?;
            let terminal_closed = CancellationToken::new();
            let hangup = signal(SignalKind::hangup())?;
            let server = match (served, inherited) {
                (Served::Store(store), None) => Server::bind(store, listen),
                (Served::Store(store), Some(listener)) => Server::with_listener(store, listener),
                (Served::Cluster(cluster), None) => Server::bind_cluster(cluster, listen),
                (Served::Cluster(cluster), Some(listener)) => {
                    Server::cluster_with_listener(cluster, listener)
                }
            };
            let mut server = server.with_context(|| format!("can't listen on {listen}"))?;
            server = server
                .with_access(access.clone())
                .with_audit(audit.clone())
                .with_trusted_proxies(access_settings.trusted_proxies)
                .with_metrics(metrics.config);
            if let Some(listen) = metrics.listen {
                server = server
                    .with_metrics_listener(listen)
                    .with_context(|| format!("can't listen for metrics on {listen}"))?;
            }
            if let Some(azure) = azure {
                server = server.with_protocol(azure);
            }
            let mut scheme = "http";
            if access.is_guarded() {
                let hangup = signal(SignalKind::hangup())?;
                KeyFetcher::new(access.clone()).start(hangup).await;
            }
            let closed = has_terminal.then(|| terminal_closed.clone());
            reload_files(access, tls.clone(), audit.clone(), (hangup, closed));
            if let Some(tls) = tls {
                scheme = "https";
                server = server.with_tls(tls);
            }
            if let Some(address) = server.metrics_addr()? {
                info!(%address, "serving metrics on http");
            }
            let address = server.local_addr()?;
            // A store serves without a reader of stdout.
            let url = format!("{scheme}://{address}");
            let _ = output::line(format_args!("listening on {url}"));
            supervisor::start_watchdog();
            supervisor::ready(&url);
            let shutdown = async move {
                let signal = tokio::select! {
                    signal = stopped => signal,
                    () = terminal_closed.cancelled() => "SIGHUP",
                };
                supervisor::stopping();
                info!(signal, "stopping");
            };
            if let Some(data_dir) = &data_dir {
                record_restore(&audit, data_dir).await;
            }
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

    fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = Settings::load(STORE, self.config.as_deref())?;
        settings.set_flag("serve.listen", &self.listen);
        if let Some(engine) = &self.engine {
            settings.refuse_replaced("serve.engine", engine, &Origin::Flag("--engine".into()))?;
        }
        settings.set_flag("serve.home", &self.home);
        let data_dir = self.data_dir.as_deref().map(Path::to_string_lossy);
        settings.set_flag("serve.data_dir", &data_dir.map(Cow::into_owned));
        let access = self.access.as_deref().map(Path::to_string_lossy);
        settings.set_named_flag("access", "access.file", &access.map(Cow::into_owned));
        settings.set_named_flag("tls-certificate", "tls.certificate", &self.tls_certificate);
        settings.set_named_flag("tls-key", "tls.key", &self.tls_key);
        for (key, is_set) in [
            ("access.allow_plain_http", self.allow_plain_http),
            ("access.allow_anonymous", self.allow_anonymous),
        ] {
            settings.set_flag(key, &is_set.then(|| "true".to_owned()));
        }
        Ok(settings)
    }

    /// Refuses flags of the Azure Blob lease protocol that this store can't have.
    fn check_azure(&self, listen: SocketAddr, is_cluster: bool) -> Result<(), ConfigError> {
        let refused = |flag: &str, key: &str, value: String, reason: &str| {
            Err(ConfigError::Invalid {
                origin: Origin::Flag(flag.into()),
                key: key.into(),
                value,
                reason: reason.into(),
            })
        };
        if self.azure_dev && !listen.ip().is_loopback() {
            let reason =
                "the key of the development account is public: it needs a loopback address";
            return refused("--azure-dev", "listen", listen.to_string(), reason);
        }
        if is_cluster && (self.azure || self.azure_dev) {
            let reason = "a server of a cluster has no disk for blobs: leave it out, or set home = \"folder:DIRECTORY\"";
            return refused("--azure", "azure", "true".into(), reason);
        }
        Ok(())
    }
}

/// Records once that the store was restored from a backup.
async fn record_restore(audit: &Audit, data_dir: &Path) {
    let Some(note) = restore_note(data_dir) else {
        return;
    };
    let entry = AuditEntry::new(AuditKind::Restore, "done").with_reason(Some(note));
    if audit.record_now(entry).await
        && let Err(error) = forget_restore(data_dir)
    {
        warn!(%error, "can't remove the note of the restore; the next start records it again");
    }
}

/// Returns whether this process has a terminal, which sends SIGHUP when it closes.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Reloads the access file and the certificate when they change, and on SIGHUP. Later requests and
/// connections use the new contents. SIGHUP never ends the store, unless it comes from the store's
/// own terminal, which has closed: then the token is cancelled.
fn reload_files(
    access: Access,
    tls: Option<Tls>,
    audit: Audit,
    (mut hangup, terminal_closed): (Signal, Option<CancellationToken>),
) {
    let mut access_interval = tokio::time::interval(ACCESS_CHECK_INTERVAL);
    let mut certificate_interval = tokio::time::interval(CERTIFICATE_CHECK_INTERVAL);
    tokio::spawn(async move {
        let mut is_certificate_wrong = false;
        loop {
            let (is_asked, checks_certificate) = tokio::select! {
                Some(()) = hangup.recv() => (true, true),
                _ = access_interval.tick(), if access.is_guarded() => (false, false),
                _ = certificate_interval.tick(), if tls.is_some() => (false, true),
            };
            if is_asked {
                supervisor::reloading();
            }
            let (access, tls, audit) = (access.clone(), tls.clone(), audit.clone());
            let was_wrong = is_certificate_wrong;
            let reload = move || {
                reload_access(&access, &audit);
                match tls {
                    Some(tls) if checks_certificate => !reload_certificate(&tls, was_wrong),
                    _ => was_wrong,
                }
            };
            // If the TLS library has panicked, the next reload can still succeed.
            let reloaded = tokio::task::spawn_blocking(reload).await;
            is_certificate_wrong = reloaded.unwrap_or(true);
            if is_asked {
                supervisor::reloaded();
                // The signal may arrive just before the process loses its terminal.
                tokio::time::sleep(TERMINAL_PAUSE).await;
            }
            if let Some(closed) = terminal_closed
                .as_ref()
                .filter(|_| is_asked && !has_terminal())
            {
                return closed.cancel();
            }
        }
    });
}

fn reload_access(access: &Access, audit: &Audit) {
    let outcome = match access.reload() {
        Ok(false) => return,
        Ok(true) => {
            info!("access file reloaded");
            "done".to_owned()
        }
        Err(error @ AccessError::Certificates { .. }) => {
            error!(%error, "can't reload the authorities of clients, keeping those before");
            error.to_string()
        }
        Err(error) => {
            error!(%error, "can't reload the access file, keeping the rules before");
            error.to_string()
        }
    };
    audit.record(AuditEntry::new(AuditKind::Reload, outcome));
}

/// Reads the certificate again, and returns whether the files are valid.
fn reload_certificate(tls: &Tls, was_wrong: bool) -> bool {
    match tls.reload() {
        Ok(true) => info!("certificate reloaded for new connections"),
        Ok(false) if was_wrong => info!("the certificate files have the old certificate again"),
        Ok(false) => {}
        Err(error) => {
            warn!(%error, "can't reload the certificate, keeping the old one");
            return false;
        }
    }
    true
}

//! What a candidate must be told, and what it may be.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use tenure_core::bully::GroupGuarantee as Members;
use tenure_core::lease::Rules;
use tenure_core::lease::candidate::{Timings, TimingsError, TimingsOptions};
use tenure_core::wire::{DEFAULT_PRIORITY, MAX_METADATA_BYTES};
use tenure_core::{CandidateId, ElectionName, Epoch, Name};

use crate::health::HealthCheck;

use super::settings::{ConfigError, Origin, Settings};
use super::strategy::{Peer, Strategy};
use crate::guarantee::Guarantee;
use crate::store::{Endpoint, Roots};

/// Keys of a candidate's file; `TENURE_` and the key in upper case in the environment.
const KEYS: &[&str] = &[
    "election",
    "candidate",
    "servers",
    "ca_file",
    "priority",
    "lease_duration",
    "renew_interval",
    "renew_deadline",
    "stop_grace",
    "cool_down",
    "progress_deadline",
    "lock_delay",
    "on_overrun",
    "strategy",
    "require_fencing",
    "azure_blob.url",
    "azure_blob.account",
    "azure_blob.key",
    "azure_blob.key_file",
    "azure_blob.sas",
    "azure_blob.sas_file",
    "azure_blob.connection_string",
    "azure_blob.connection_string_file",
    "azure_blob.container",
    "azure_blob.blob",
    "bully.cluster",
    "bully.node",
    "bully.peers",
    "bully.listen",
    "bully.key",
    "bully.key_file",
    "bully.state_dir",
    "bully.quorum",
    "bully.preempt",
    "bully.hold_down",
    "bully.message_lifetime",
    "bully.detector",
    "bully.heartbeat_interval",
    "bully.suspect_after",
    "bully.phi_threshold",
];

/// Other spellings of keys.
const ALIASES: &[(&str, &str)] = &[("server", "servers")];

/// The prefix of environment variables.
const PREFIX: &str = "TENURE_";

/// The store's address for who gives none: one on this machine, at the store's default port.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7400";

/// A candidate's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) election: ElectionName,
    pub(crate) candidate: CandidateId,
    pub(crate) servers: Vec<Endpoint>,
    pub(crate) roots: Roots,
    pub(crate) priority: u32,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) lock_delay: Duration,
    pub(crate) timings: Timings,
    pub(crate) on_overrun: OnOverrun,
    pub(crate) health_check: Option<HealthCheck>,
    pub(crate) strategy: Strategy,
}

/// What to do when a task is still running after it was aborted (it blocks its thread), while others
/// may lead soon.
#[derive(Clone, Default)]
pub enum OnOverrun {
    /// Log an error, and wait until the task is gone. The lease is not renewed after a loss, so
    /// another candidate may lead meanwhile; the epoch is what keeps the old task's writes out. After
    /// a resignation or at shutdown it is renewed until the task is gone, and nobody else leads.
    #[default]
    Report,
    /// End the process with [`OnOverrun::EXIT_CODE`]: the only way to stop a blocked thread.
    Exit,
    /// Call this with the term's epoch, on the driver's thread, which renews nothing meanwhile: it
    /// must not block.
    Call(Arc<dyn Fn(Epoch) + Send + Sync>),
}

impl OnOverrun {
    /// The exit code of a process that ends itself because its task overran: `EX_SOFTWARE` of
    /// sysexits.
    pub const EXIT_CODE: i32 = 70;
}

impl fmt::Debug for OnOverrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Report => "Report",
            Self::Exit => "Exit",
            Self::Call(_) => "Call",
        })
    }
}

impl Config {
    /// The defaults for this election: a store at `http://127.0.0.1:7400`, a candidate id of host
    /// name, process id and random letters, and the default [`Timings`].
    #[must_use]
    pub fn new(election: ElectionName) -> Self {
        Self {
            election,
            candidate: fresh_candidate_id(),
            servers: vec![default_server()],
            roots: Roots::of_system(),
            priority: DEFAULT_PRIORITY,
            metadata: BTreeMap::new(),
            lock_delay: Duration::ZERO,
            timings: Timings::default(),
            on_overrun: OnOverrun::default(),
            health_check: None,
            strategy: Strategy::Lease,
        }
    }

    /// Reads a TOML file, overridden by `TENURE_*` environment variables.
    ///
    /// ```toml
    /// election = "billing/nightly"         # or just "nightly"; required
    /// servers = ["http://127.0.0.1:7400"]  # the store's addresses
    /// ca_file = "/etc/tenure/ca.pem"       # who vouches for those with https; default the system's
    /// candidate = "worker-1"               # default: host-pid-random
    /// priority = 100                       # lower goes first among those who wait
    /// lease_duration = "15s"               # the other timings follow from it:
    /// renew_interval = "5s"
    /// renew_deadline = "10s"
    /// stop_grace = "4s"
    /// cool_down = "5s"
    /// lock_delay = "0s"
    /// on_overrun = "report"                # or "exit"
    /// strategy = "lease"                   # or "azure-blob", "bully", "both", or "static"
    ///
    /// [metadata]
    /// address = "http://10.0.0.7:8080"
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with file, line, key, value and what would be right.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let mut settings = Self::settings();
        Self::read_file(&mut settings, path.as_ref())?;
        Self::read_environment(&mut settings)?;
        Self::from_settings(&settings)
    }

    /// Reads `TENURE_*` environment variables only.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with variable, value and what would be right.
    pub fn from_env() -> Result<Self, ConfigError> {
        let mut settings = Self::settings();
        Self::read_environment(&mut settings)?;
        Self::from_settings(&settings)
    }

    /// No settings yet, for a program that has sources of its own (flags): fill them in with
    /// [`Config::read_file`], [`Config::read_environment`] and [`Settings::set`], in rising order of
    /// precedence, then make them a configuration with [`Config::from_settings`].
    #[must_use]
    pub const fn settings() -> Settings {
        Settings::new(KEYS)
            .with_tables(&["metadata"])
            .with_aliases(ALIASES)
    }

    /// Reads a candidate's settings from a file. Its tables `[serve]`, `[tls]` and `[azure]` are the
    /// store's and left alone.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with file, line and key.
    pub fn read_file(settings: &mut Settings, path: &Path) -> Result<(), ConfigError> {
        settings.read_file(path, None, &["serve", "tls", "azure"])
    }

    /// Reads a candidate's settings from this process's environment.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: two variables set one key.
    pub fn read_environment(settings: &mut Settings) -> Result<(), ConfigError> {
        // Text that is no UTF-8 becomes text that no setting is.
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let environment = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
        for stranger in settings.read_environment(PREFIX, environment)? {
            tracing::debug!(name = stranger, "not a setting of a candidate");
        }
        Ok(())
    }

    /// The environment variables that candidates are set up by.
    pub fn variables() -> impl Iterator<Item = String> {
        let spellings = ALIASES.iter().map(|(alias, _)| alias);
        KEYS.iter().chain(spellings).map(|key| variable(key))
    }

    /// The environment variables that have secrets of a candidate: nobody else has use for them.
    pub fn secret_variables() -> impl Iterator<Item = String> {
        let secrets = KEYS.iter().filter(|key| Settings::is_secret(key));
        secrets.map(|key| variable(key))
    }

    /// The configuration that these settings make.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with origin, key, value and what would be right.
    pub fn from_settings(settings: &Settings) -> Result<Self, ConfigError> {
        let election = settings
            .parse("election")?
            .ok_or_else(|| ConfigError::Missing {
                key: "election",
                reason: "name what is competed for, such as election = \"billing/nightly\"".into(),
            })?;
        let mut config = Self::new(election);
        if let Some(candidate) = settings.parse("candidate")? {
            config.candidate = candidate;
        }
        if let Some(priority) = settings.number("priority", 0..=u32::MAX)? {
            config.priority = priority;
        }
        config.servers = Self::servers_of(settings)?;
        config.roots = Self::roots_of(settings)?;
        config.timings = Self::timings_of(settings)?;
        if let Some(lock_delay) = settings.duration("lock_delay")? {
            if lock_delay > Rules::NATIVE.max_duration {
                return Err(settings.invalid("lock_delay", "must be 0s to 24h".into()));
            }
            config.lock_delay = lock_delay;
        }
        if let Some(on_overrun) = settings.with("on_overrun", |text| match text {
            "report" => Ok(OnOverrun::Report),
            "exit" => Ok(OnOverrun::Exit),
            _ => Err("must be \"report\" or \"exit\"".into()),
        })? {
            config.on_overrun = on_overrun;
        }
        config.metadata = metadata(settings)?;
        config.strategy = super::strategy::of_settings(settings, &config)?;
        if settings.flag("require_fencing")? == Some(true)
            && config.guarantee() == Guarantee::BestEffort
        {
            let reason = format!(
                "strategy \"{}\"{} can have two leaders under one epoch, which no receiver can tell \
                 apart; use a lease, or a quorum (bully.quorum = true)",
                config.strategy.name(),
                if config.strategy.bully().is_some() {
                    " without a quorum"
                } else {
                    ""
                }
            );
            return Err(settings.invalid("require_fencing", reason));
        }
        Ok(config)
    }

    /// The store's addresses that these settings name, or the default one.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] for what is no `http` or `https` address.
    pub fn servers_of(settings: &Settings) -> Result<Vec<Endpoint>, ConfigError> {
        if settings.origin("servers").is_none() {
            return Ok(vec![default_server()]);
        }
        let parse = |text: &str| {
            let right = "write it like http://127.0.0.1:7400";
            let shown = || Endpoint::shown(text);
            let url =
                Url::parse(text).map_err(|error| format!("{:?}: {error}; {right}", shown()))?;
            if matches!(url.scheme(), "http" | "https") && url.query().is_none() {
                Ok(url.into())
            } else {
                Err(format!(
                    "{:?} is no http or https address; {right}",
                    shown()
                ))
            }
        };
        let texts = settings
            .texts("servers")?
            .into_iter()
            .filter(|text| !text.is_empty());
        let servers: Vec<Endpoint> = texts
            .map(parse)
            .collect::<Result<_, String>>()
            .map_err(|reason| settings.invalid("servers", reason))?;
        if servers.is_empty() {
            return Err(settings.invalid("servers", "name at least one address".into()));
        }
        Ok(servers)
    }

    /// The certificates that these settings trust a store by: those of the file `ca_file`, or the
    /// system's.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`]: the file can't be read, or has none.
    pub fn roots_of(settings: &Settings) -> Result<Roots, ConfigError> {
        let read = |path: &str| {
            if path.is_empty() {
                return Ok(Roots::of_system());
            }
            let pem = std::fs::read(path).map_err(|error| error.to_string())?;
            Roots::of_pem(pem)
        };
        Ok(settings.with("ca_file", read)?.unwrap_or_default())
    }

    /// All members of the election among peers that these settings name, whatever the strategy.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: there are none, or one can't be.
    pub fn peers_of(settings: &Settings) -> Result<Vec<Peer>, ConfigError> {
        super::strategy::peers_of(settings)
    }

    /// The name of the group of peers that these settings make.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: there is none, or it can't be.
    pub fn cluster_of(settings: &Settings) -> Result<Name, ConfigError> {
        if let Some(cluster) = settings.parse("bully.cluster")? {
            return Ok(cluster);
        }
        let election: Option<ElectionName> = settings.parse("election")?;
        let name = election.map(|election| election.name().clone());
        name.ok_or_else(|| ConfigError::Missing {
            key: "election",
            reason: "name what they elect for, such as election = \"billing/nightly\"".into(),
        })
    }

    /// The timeline that these settings make.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for what is no duration, and for timings that can't hold together.
    pub fn timings_of(settings: &Settings) -> Result<Timings, ConfigError> {
        let options = TimingsOptions {
            lease_duration: settings.duration("lease_duration")?,
            renew_interval: settings.duration("renew_interval")?,
            renew_deadline: settings.duration("renew_deadline")?,
            stop_grace: settings.duration("stop_grace")?,
            cool_down: settings.duration("cool_down")?,
            progress_deadline: settings.duration("progress_deadline")?,
        };
        Timings::new(&options).map_err(|reason| impossible(settings, reason))
    }

    /// The election that is competed in.
    #[must_use]
    pub const fn election(&self) -> &ElectionName {
        &self.election
    }

    /// The candidate's id.
    #[must_use]
    pub const fn candidate(&self) -> &CandidateId {
        &self.candidate
    }

    /// The store's addresses.
    #[must_use]
    pub fn servers(&self) -> &[Endpoint] {
        &self.servers
    }

    /// The certificates that stores at https addresses are believed by.
    #[must_use]
    pub const fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Which way it is elected.
    #[must_use]
    pub const fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// What its strategy promises.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        match &self.strategy {
            Strategy::Lease | Strategy::AzureBlob(_) => Guarantee::FencedLease,
            Strategy::Bully(bully) if bully.guarantee() == Members::Quorum => Guarantee::Quorum,
            // As strong as the stronger half for itself; but whoever is elected among peers alone
            // may lead beside it unless they have a quorum, and then it must promise no more.
            Strategy::Both(bully) if bully.guarantee() == Members::Quorum => Guarantee::FencedLease,
            Strategy::Bully(_) | Strategy::Both(_) | Strategy::Static => Guarantee::BestEffort,
        }
    }

    /// Who goes first among those who wait: the lower one.
    #[must_use]
    pub const fn priority(&self) -> u32 {
        self.priority
    }

    /// For how long nobody is granted after this candidate's term has expired or been broken.
    #[must_use]
    pub const fn lock_delay(&self) -> Duration {
        self.lock_delay
    }

    /// The timeline of a term.
    #[must_use]
    pub const fn timings(&self) -> &Timings {
        &self.timings
    }

    /// Is elected this way; default [`Strategy::Lease`].
    #[must_use]
    pub fn with_strategy(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
    }

    /// Competes under this id; it must be unique per start of a process. A member of an election among
    /// peers has its number for an id, whatever is given here.
    #[must_use]
    pub fn with_candidate(self, candidate: CandidateId) -> Self {
        Self { candidate, ..self }
    }

    /// Asks the store at these addresses, one after the other when one fails. An empty list leaves
    /// the default.
    #[must_use]
    pub fn with_servers(self, servers: impl IntoIterator<Item = Url>) -> Self {
        let servers: Vec<Endpoint> = servers.into_iter().map(Into::into).collect();
        if servers.is_empty() {
            self
        } else {
            Self { servers, ..self }
        }
    }

    /// Believes stores at https addresses by these certificates; default the system's.
    #[must_use]
    pub fn with_roots(self, roots: Roots) -> Self {
        Self { roots, ..self }
    }

    /// Goes before waiting candidates with a greater number; default 100.
    #[must_use]
    pub fn with_priority(self, priority: u32) -> Self {
        Self { priority, ..self }
    }

    /// Says this about itself while it leads, up to 4 KiB.
    #[must_use]
    pub fn with_metadata(self, metadata: BTreeMap<String, String>) -> Self {
        Self { metadata, ..self }
    }

    /// Has nobody granted for so long after its term has *expired or been broken*, so that work in
    /// flight ends; default none.
    #[must_use]
    pub fn with_lock_delay(self, lock_delay: Duration) -> Self {
        Self { lock_delay, ..self }
    }

    /// Lives by this timeline.
    #[must_use]
    pub fn with_timings(self, timings: Timings) -> Self {
        Self { timings, ..self }
    }

    /// Asks after the task's health while it runs; default never.
    #[must_use]
    pub fn with_health_check(self, health_check: HealthCheck) -> Self {
        let health_check = Some(health_check);
        Self {
            health_check,
            ..self
        }
    }

    /// Does this when the task is still running after it was aborted; default
    /// [`OnOverrun::Report`].
    #[must_use]
    pub fn with_on_overrun(self, on_overrun: OnOverrun) -> Self {
        Self { on_overrun, ..self }
    }
}

/// The environment variable of a key.
fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_ascii_uppercase())
}

fn default_server() -> Endpoint {
    let url = Url::parse(DEFAULT_SERVER);
    url.expect("the default address is one").into()
}

/// Names those of the keys that the timings come from which were set.
fn impossible(settings: &Settings, reason: TimingsError) -> ConfigError {
    let keys: &[&'static str] = match reason {
        TimingsError::LeaseDuration { .. } => &["lease_duration"],
        TimingsError::ProgressDeadline { .. } => &["progress_deadline"],
        TimingsError::StopGrace { .. } => &["lease_duration", "stop_grace"],
        _ => &[
            "lease_duration",
            "renew_interval",
            "renew_deadline",
            "stop_grace",
        ],
    };
    let place = |&key: &&'static str| Some((key, settings.origin(key)?.clone()));
    let origins: Vec<(&str, Origin)> = keys.iter().filter_map(place).collect();
    match origins[..] {
        [(key, _)] => settings.invalid(key, reason.to_string()),
        _ => ConfigError::Timings { origins, reason },
    }
}

fn metadata(settings: &Settings) -> Result<BTreeMap<String, String>, ConfigError> {
    let metadata = settings.table("metadata")?;
    let bytes: usize = metadata
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    match metadata.keys().next() {
        Some(first) if bytes > MAX_METADATA_BYTES => Err(settings.invalid(
            &format!("metadata.{first}"),
            format!("all metadata have {bytes} bytes, at most {MAX_METADATA_BYTES} are taken"),
        )),
        _ => Ok(metadata),
    }
}

/// Host name, process id and random letters: unique per start of a process, and a person can find
/// the process by it.
fn fresh_candidate_id() -> CandidateId {
    let host = nix::unistd::gethostname()
        .ok()
        .and_then(|host| host.into_string().ok());
    let host: String = host
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
        .take(64)
        .collect();
    let random = getrandom::u32().unwrap_or_default();
    let id = format!("{}-{}-{random:08x}", host.as_str(), std::process::id());
    let id = id.trim_start_matches('-');
    id.parse()
        .expect("letters, digits, dots and hyphens make a candidate id")
}

//! A candidate's configuration from a file and the environment.

use std::collections::BTreeMap;
use std::path::Path;

use tenure_core::lease::Rules;
use tenure_core::lease::candidate::{Timings, TimingsError, TimingsOptions};
use tenure_core::wire::MAX_METADATA_BYTES;
use tenure_core::{ElectionName, Name};

use super::candidate::{Config, OnOverrun, default_server};
use super::settings::{ConfigError, Origin, Settings};
use super::strategy::Strategy;
use crate::credentials::{Credentials, CredentialsError};
use crate::guarantee::Guarantee;
use crate::root_certificates::RootCertificates;
use crate::store::{Endpoint, EndpointError};

/// Keys of a candidate's file; `TENURE_` and the key in upper case in the environment.
const KEYS: &[&str] = &[
    "election",
    "candidate",
    "servers",
    "ca_file",
    "ca",
    "token_file",
    "token",
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

/// Tables of the same file that belong to the store.
const TABLES_OF_THE_STORE: &[&str] = &["serve", "access", "audit", "tls", "azure"];

/// The purpose of reading a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Compete,
    Observe,
}

impl Config {
    /// Reads a TOML file, overridden by `TENURE_*` environment variables.
    ///
    /// ```toml
    /// election = "billing/nightly"         # or just "nightly"; required
    /// servers = ["http://127.0.0.1:7400"]  # the store's addresses
    /// ca_file = "/etc/tenure/ca.pem"       # root certificates for https; default the system's
    /// token_file = "/etc/tenure/token"     # the credential for the store; default none
    /// candidate = "worker-1"               # default: host-pid-random
    /// priority = 100                       # among waiting candidates the lowest goes first
    /// lease_duration = "15s"               # the other timings follow from it:
    /// renew_interval = "5s"
    /// renew_deadline = "10s"
    /// stop_grace = "4s"
    /// cool_down = "5s"
    /// progress_deadline = "30s"            # default: none
    /// lock_delay = "0s"
    /// on_overrun = "report"                # or "exit"
    /// strategy = "lease"                   # or "azure-blob", "bully", "both", or "static"
    /// require_fencing = false              # true: refuse a strategy that only makes a best effort
    ///
    /// [metadata]
    /// address = "http://10.0.0.7:8080"
    ///
    /// [bully]                              # for strategy = "bully" and "both"
    /// node = 1                             # this member
    /// peers = ["1=http://10.0.0.1:7500", "2=http://10.0.0.2:7500", "3=http://10.0.0.3:7500"]
    /// key_file = "/etc/tenure/peers.key"   # at least 16 bytes, the same for all members
    /// state_dir = "/var/lib/tenure-peer"
    ///
    /// [azure_blob]                         # for strategy = "azure-blob"
    /// connection_string_file = "/etc/tenure/azure"
    /// ```
    ///
    /// `tenure config example` prints every key with its default; `docs/configuration.md` explains
    /// them.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with file, line, key, value, and a valid value.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        from_settings(&file_and_environment(path.as_ref())?)
    }

    /// Reads the same file and environment for a process that only watches the election
    /// ([`Observer::from_config`](crate::observe::Observer::from_config)). A member's own settings,
    /// such as `bully.node` and `bully.key_file`, may be missing and are ignored: no member starts
    /// with this configuration.
    ///
    /// # Errors
    ///
    /// As of [`load`](Self::load).
    pub fn load_for_observer(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        from_settings_for(&file_and_environment(path.as_ref())?, Purpose::Observe)
    }

    /// Reads the text of a TOML file, without the environment: for tests, and for programs that keep
    /// their configuration elsewhere.
    ///
    /// ```
    /// let config = tenure::Config::from_toml("election = \"nightly\"\nlease_duration = \"30s\"")?;
    /// assert_eq!(config.timings().lease_duration().as_secs(), 30);
    /// # Ok::<(), tenure::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with line, key, value, and a valid value.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let mut settings = settings();
        settings.read_text(text, Path::new("(text)"), None, TABLES_OF_THE_STORE)?;
        from_settings(&settings)
    }

    /// Reads `TENURE_*` environment variables only.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with variable, value, and a valid value.
    pub fn from_env() -> Result<Self, ConfigError> {
        let mut settings = settings();
        read_environment(&mut settings)?;
        from_settings(&settings)
    }
}

fn file_and_environment(path: &Path) -> Result<Settings, ConfigError> {
    let mut settings = settings();
    read_file(&mut settings, path)?;
    read_environment(&mut settings)?;
    Ok(settings)
}

/// No settings yet. Fill them in with [`read_file`], [`read_environment`] and [`Settings::set`], in
/// rising order of precedence, then make a configuration with [`from_settings`].
#[must_use]
pub const fn settings() -> Settings {
    Settings::new(KEYS)
        .with_tables(&["metadata"])
        .with_aliases(ALIASES)
}

/// Reads a candidate's settings from a file. Its tables `[serve]`, `[access]`, `[tls]` and
/// `[azure]` are the store's and ignored.
///
/// # Errors
///
/// [`ConfigError`] with file, line and key.
pub fn read_file(settings: &mut Settings, path: &Path) -> Result<(), ConfigError> {
    settings.read_file(path, None, TABLES_OF_THE_STORE)
}

/// Reads a candidate's settings from this process's environment.
///
/// # Errors
///
/// [`ConfigError`]: two variables set one key.
pub fn read_environment(settings: &mut Settings) -> Result<(), ConfigError> {
    // Text that is not UTF-8 becomes text that is not a valid setting.
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let environment = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
    for unknown in settings.read_environment(PREFIX, environment)? {
        tracing::debug!(name = unknown, "not a setting of a candidate");
    }
    Ok(())
}

/// The environment variables of candidates.
pub fn variables() -> impl Iterator<Item = String> {
    let spellings = ALIASES.iter().map(|(alias, _)| alias);
    KEYS.iter().chain(spellings).map(|key| variable(key))
}

/// The environment variables with secrets of a candidate, which no other process needs.
pub fn secret_variables() -> impl Iterator<Item = String> {
    let secrets = KEYS.iter().filter(|key| Settings::is_secret(key));
    secrets.map(|key| variable(key))
}

/// The configuration of a candidate with these settings.
///
/// # Errors
///
/// [`ConfigError`] with origin, key, value, and a valid value.
pub fn from_settings(settings: &Settings) -> Result<Config, ConfigError> {
    from_settings_for(settings, Purpose::Compete)
}

fn from_settings_for(settings: &Settings, purpose: Purpose) -> Result<Config, ConfigError> {
    let election = settings
        .parse("election")?
        .ok_or_else(|| ConfigError::Missing {
            key: "election",
            reason: "name the election, such as election = \"billing/nightly\"".into(),
        })?;
    let mut config = Config::new(election);
    if let Some(candidate) = settings.parse("candidate")? {
        config.candidate = candidate;
    }
    if let Some(priority) = settings.number("priority", 0..=u32::MAX)? {
        config.priority = priority;
    }
    config.servers = servers_of(settings)?;
    config.roots = roots_of(settings)?;
    config.credentials = credentials_of(settings)?;
    config.timings_options = timings_options_of(settings)?;
    config.timings = timings_of(settings)?;
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
    config.strategy = strategy_of(settings, &config, purpose)?;
    if settings.flag("require_fencing")? == Some(true)
        && config.guarantee() == Guarantee::BestEffort
    {
        let name = config.strategy.name();
        let without = match name {
            "bully" | "both" => " without a quorum",
            _ => "",
        };
        let reason = format!(
            "strategy \"{name}\"{without} can have two leaders under one epoch, which a receiver can't \
             tell apart; use a lease, or a quorum (bully.quorum = true)"
        );
        return Err(settings.invalid("require_fencing", reason));
    }
    Ok(config)
}

/// The strategy of these settings. Settings of other strategies are ignored, so that one word
/// changes it.
fn strategy_of(
    settings: &Settings,
    config: &Config,
    purpose: Purpose,
) -> Result<Strategy, ConfigError> {
    let name = settings.with("strategy", |text| {
        if Strategy::NAMES.contains(&text) {
            return Ok(text.to_owned());
        }
        Err(format!(
            "must be one of {}",
            Strategy::NAMES.map(|name| format!("{name:?}")).join(", ")
        ))
    })?;
    match name.as_deref().unwrap_or("lease") {
        "lease" => Ok(Strategy::Lease),
        #[cfg(feature = "azure")]
        "azure-blob" => super::azure_blob::of_settings(settings, config).map(Strategy::AzureBlob),
        #[cfg(feature = "peers")]
        "bully" => {
            super::bully_settings::bully(settings, &config.timings, purpose).map(Strategy::Bully)
        }
        #[cfg(feature = "peers")]
        "both" => {
            super::bully_settings::bully(settings, &config.timings, purpose).map(Strategy::Both)
        }
        "static" => Ok(Strategy::Static),
        _ => {
            // Without some features these have no use.
            let _ = (config, purpose);
            let reason = "this program was built without it: enable the feature \"azure\" or \"peers\" of the \
                          crate tenure";
            Err(settings.invalid("strategy", reason.into()))
        }
    }
}

/// The store's addresses in these settings, or the default one.
///
/// # Errors
///
/// [`ConfigError::Invalid`] for a text that is not an http or https address.
pub fn servers_of(settings: &Settings) -> Result<Vec<Endpoint>, ConfigError> {
    if settings.origin("servers").is_none() {
        return Ok(vec![default_server()]);
    }
    let texts = settings
        .texts("servers")?
        .into_iter()
        .filter(|text| !text.is_empty());
    let servers: Vec<Endpoint> = texts
        .map(str::parse)
        .collect::<Result<_, EndpointError>>()
        .map_err(|error| settings.invalid("servers", error.to_string()))?;
    if servers.is_empty() {
        return Err(settings.invalid("servers", "name at least one address".into()));
    }
    Ok(servers)
}

/// The root certificates of these settings: those of the file `ca_file`, those in `ca`, or the
/// system's.
///
/// # Errors
///
/// [`ConfigError::Invalid`]: the file can't be read, or there is no certificate.
pub fn roots_of(settings: &Settings) -> Result<RootCertificates, ConfigError> {
    let inline = |text: &str| match text {
        "" => Ok(None),
        text => root_certificates(text.as_bytes().to_vec()).map(Some),
    };
    if let Some(roots) = settings.with("ca", inline)?.flatten() {
        return match settings.origin("ca_file") {
            Some(_) => Err(settings.one_too_many("ca", "ca_file")),
            None => Ok(roots),
        };
    }
    let read = |path: &str| {
        if path.is_empty() {
            return Ok(RootCertificates::system());
        }
        let pem = std::fs::read(path).map_err(|error| error.to_string())?;
        root_certificates(pem)
    };
    Ok(settings.with("ca_file", read)?.unwrap_or_default())
}

/// The credential of these settings, for the addresses of the store.
///
/// # Errors
///
/// [`ConfigError::Invalid`]: there is no token in the file, others can read the configuration that
/// has the token, or an address must not get it.
pub fn credentials_of(settings: &Settings) -> Result<Credentials, ConfigError> {
    let text = |error: CredentialsError| error.to_string();
    let file = settings.with("token_file", |path| match path {
        "" => Ok(None),
        path => Credentials::token_file(path).map(Some).map_err(text),
    })?;
    let token = settings.with("token", |token| match token.trim() {
        "" => Ok(None),
        token => Credentials::token(token).map(Some).map_err(text),
    })?;
    let (key, credentials) = match (file.flatten(), token.flatten()) {
        (None, None) => return Ok(Credentials::none()),
        (Some(_), Some(_)) => return Err(settings.one_too_many("token", "token_file")),
        (Some(file), None) => ("token_file", file),
        (None, Some(token)) => ("token", token),
    };
    if let (Some(Origin::File { path, .. }), "token") = (settings.origin(key), key) {
        check_permissions(path).map_err(|reason| settings.invalid(key, reason))?;
    }
    if let Some(server) = servers_of(settings)?
        .iter()
        .find_map(|server| credentials.check(server).err())
    {
        return Err(settings.invalid("servers", server));
    }
    Ok(credentials)
}

/// Refuses a file with a secret that other users can read.
fn check_permissions(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;

    // A text that comes from no file has no mode.
    let Ok(metadata) = std::fs::metadata(path) else {
        return Ok(());
    };
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let path = path.display();
    Err(format!(
        "other users can read the token (mode {mode:04o}); run: chmod go-rwx {path}"
    ))
}

#[cfg(feature = "tls")]
fn root_certificates(pem: Vec<u8>) -> Result<RootCertificates, String> {
    RootCertificates::from_pem(pem).map_err(|error| error.to_string())
}

#[cfg(not(feature = "tls"))]
fn root_certificates(_: Vec<u8>) -> Result<RootCertificates, String> {
    Err("https needs the feature \"tls\" of the crate tenure".into())
}

/// The name of the group of peers in these settings.
///
/// # Errors
///
/// [`ConfigError`]: there is none, or it is not valid.
pub fn cluster_of(settings: &Settings) -> Result<Name, ConfigError> {
    if let Some(cluster) = settings.parse("bully.cluster")? {
        return Ok(cluster);
    }
    let election: Option<ElectionName> = settings.parse("election")?;
    let name = election.map(|election| election.name().clone());
    name.ok_or_else(|| ConfigError::Missing {
        key: "election",
        reason: "name the election, such as election = \"billing/nightly\"".into(),
    })
}

/// The timings of these settings.
///
/// # Errors
///
/// [`ConfigError`] for a text that is not a duration, and for timings that contradict each other.
pub fn timings_of(settings: &Settings) -> Result<Timings, ConfigError> {
    let options = timings_options_of(settings)?;
    Timings::new(&options).map_err(|reason| impossible(settings, reason))
}

fn timings_options_of(settings: &Settings) -> Result<TimingsOptions, ConfigError> {
    Ok(TimingsOptions {
        lease_duration: settings.duration("lease_duration")?,
        renew_interval: settings.duration("renew_interval")?,
        renew_deadline: settings.duration("renew_deadline")?,
        stop_grace: settings.duration("stop_grace")?,
        cool_down: settings.duration("cool_down")?,
        progress_deadline: settings.duration("progress_deadline")?,
    })
}

/// The environment variable of a key.
fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_ascii_uppercase())
}

/// The error of contradicting timings, with the place of each key that was set.
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
            format!("all metadata have {bytes} bytes; at most {MAX_METADATA_BYTES} are allowed"),
        )),
        _ => Ok(metadata),
    }
}

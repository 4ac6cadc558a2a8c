//! A candidate's configuration from a file and the environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tenure_core::ElectionName;
use tenure_core::lease::Rules;
use tenure_core::lease::candidate::{Timings, TimingsError, TimingsOptions};
use tenure_core::wire::MAX_METADATA_BYTES;

use super::candidate::{Config, OnOverrun, default_server};
use super::permissions;
use super::settings::{ConfigError, FileKey, Origin, Scope, Settings};
use super::strategy::Strategy;
use crate::base::guarantee::Guarantee;
use crate::http::client_certificate::{ClientCertificate, ClientCertificateError};
use crate::http::credentials::{Credentials, CredentialsError};
use crate::http::root_certificates::RootCertificates;
use crate::http::store::{Endpoint, EndpointError};

/// The purpose for which a configuration is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Compete,
    Observe,
}

impl Config {
    /// Reads a TOML file, and then `TENURE_*` environment variables, which override its values.
    ///
    /// ```toml
    /// election = "billing/nightly"         # or just "nightly"; required
    /// servers = ["http://127.0.0.1:7400"]  # the store's addresses
    /// ca_file = "/etc/tenure/ca.pem"       # root certificates for https; default the system's
    /// token_file = "/etc/tenure/token"     # the credential for the store; default none
    /// client_certificate = "/etc/tenure/worker.pem"  # or this, with its key; default none
    /// client_key = "/etc/tenure/worker.key"
    /// candidate = "worker-1"               # default: host-pid-random
    /// priority = 100                       # the lowest is first among waiting candidates
    /// lease_duration = "15s"               # the other timings follow from it:
    /// renew_interval = "5s"
    /// renew_deadline = "10s"
    /// stop_grace = "4s"
    /// cool_down = "5s"
    /// progress_deadline = "30s"            # default: none
    /// lock_delay = "0s"
    /// on_overrun = "exit"                  # or "report"
    /// strategy = "lease"                   # or "azure-blob", "kubernetes", "bully", "both", or "static"
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
    /// [fallback]                           # beside strategy = "lease" or "azure-blob"
    /// node = 1                             # this member
    /// members = ["1=http://10.0.0.1:7500", "2=http://10.0.0.2:7500", "3=http://10.0.0.3:7500"]
    /// key_file = "/etc/tenure/peers.key"   # at least 16 bytes, the same for all members
    /// state_dir = "/var/lib/tenure-peer"
    /// k = "balanced"                       # members that are enough beside the store
    ///
    /// [azure_blob]                         # for strategy = "azure-blob"
    /// connection_string_file = "/etc/tenure/azure"
    ///
    /// [kubernetes]                         # for strategy = "kubernetes"; in a pod all keys have defaults
    /// lease = "nightly"
    /// ```
    ///
    /// `tenure config example` prints every key with its default; `docs/configuration.md` explains
    /// them.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] that names the file, the line, the key, the value, and a valid value.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        from_settings(&Settings::load(Scope::Candidate, Some(path.as_ref()))?)
    }

    /// Reads the same file and environment for a process that only watches the election
    /// ([`Observer::from_config`](crate::observe::Observer::from_config)). A member's own settings,
    /// such as `bully.node` and `bully.key_file`, may be missing and are ignored: no member starts
    /// with this configuration.
    ///
    /// # Errors
    ///
    /// The errors of [`load`](Self::load).
    pub fn load_for_observer(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let settings = Settings::load(Scope::Candidate, Some(path.as_ref()))?;
        from_settings_for(&settings, Purpose::Observe)
    }

    /// Parses the text of a TOML file and ignores the environment. This is for tests, and for
    /// programs that keep their configuration elsewhere.
    ///
    /// ```
    /// let config = tenure::Config::from_toml("election = \"nightly\"\nlease_duration = \"30s\"")?;
    /// assert_eq!(config.timings().lease_duration().as_secs(), 30);
    /// # Ok::<(), tenure::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConfigError`] that names the line, the key, the value, and a valid value.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let place = Path::new("(text)");
        from_settings(&Settings::of_toml(Scope::Candidate, text, place)?)
    }

    /// Reads `TENURE_*` environment variables only.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] that names the variable, the value, and a valid value.
    pub fn from_env() -> Result<Self, ConfigError> {
        from_settings(&Settings::load(Scope::Candidate, None)?)
    }
}

/// Reads the configuration of a candidate from these settings.
///
/// # Errors
///
/// [`ConfigError`] that names the origin, the key, the value, and a valid value.
pub fn from_settings(settings: &Settings) -> Result<Config, ConfigError> {
    from_settings_for(settings, Purpose::Compete)
}

pub(super) fn election_of(settings: &Settings) -> Result<ElectionName, ConfigError> {
    let reason = "name the election, such as election = \"billing/nightly\"";
    let election = settings.parse("election")?;
    election.ok_or_else(|| ConfigError::missing("election", reason))
}

fn from_settings_for(settings: &Settings, purpose: Purpose) -> Result<Config, ConfigError> {
    let mut config = Config::new(election_of(settings)?);
    let candidate = settings.parse("candidate")?;
    config.candidate = candidate.unwrap_or(config.candidate);
    let priority = settings.number("priority", 0..=u32::MAX)?;
    config.priority = priority.unwrap_or(config.priority);
    config.servers = servers_of(settings)?;
    config.roots = roots_of(settings)?;
    config.credentials = credentials_of(settings)?;
    config.timings_options = timings_options_of(settings)?;
    config.timings =
        Timings::new(&config.timings_options).map_err(|reason| impossible(settings, reason))?;
    config.lock_delay = settings.duration("lock_delay")?.unwrap_or_default();
    if config.lock_delay > Rules::NATIVE.max_duration {
        return Err(settings.invalid("lock_delay", "must be 0s to 24h".into()));
    }
    let on_overrun = settings.with("on_overrun", |text| match text {
        "report" => Ok(OnOverrun::Report),
        "exit" => Ok(OnOverrun::Exit),
        _ => Err("must be \"report\" or \"exit\"".into()),
    })?;
    config.on_overrun = on_overrun.unwrap_or_default();
    config.metadata = metadata(settings)?;
    #[cfg(feature = "peers")]
    super::fallback_settings::check_strategy(settings)?;
    config.strategy = strategy_of(settings, &config, purpose)?;
    fallback_of(settings, &mut config, purpose)?;
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

/// Reads the strategy. Settings of other strategies are ignored, so a change of one word selects
/// another strategy.
fn strategy_of(
    settings: &Settings,
    config: &Config,
    purpose: Purpose,
) -> Result<Strategy, ConfigError> {
    let name = settings.with("strategy", |text| {
        if Strategy::NAMES.contains(&text) {
            return Ok(text);
        }
        let names = Strategy::NAMES.map(|name| format!("{name:?}"));
        let hint = match text {
            "links" => {
                "; for members that reach each other only through others, use \"bully\" with relay = true \
                 in [bully]"
            }
            _ => "",
        };
        Err(format!("must be one of {}{hint}", names.join(", ")))
    })?;
    match name.unwrap_or("lease") {
        "lease" => Ok(Strategy::Lease),
        #[cfg(feature = "azure")]
        "azure-blob" => super::azure_blob::of_settings(settings, config).map(Strategy::AzureBlob),
        #[cfg(feature = "kubernetes")]
        "kubernetes" => {
            super::kubernetes_settings::of_settings(settings, config).map(Strategy::Kubernetes)
        }
        #[cfg(feature = "peers")]
        name @ ("bully" | "both") => {
            let bully = super::bully_settings::bully(settings, &config.timings, purpose)?;
            let is_both = name == "both";
            Ok(if is_both {
                Strategy::Both(bully)
            } else {
                Strategy::Bully(bully)
            })
        }
        "static" => Ok(Strategy::Static),
        _ => {
            // Without some of the features these variables are unused.
            let _ = (config, purpose);
            let reason = "this program was built without it: enable the feature \"azure\", \"kubernetes\" or \
                          \"peers\" of the crate tenure";
            Err(settings.invalid("strategy", reason.into()))
        }
    }
}

/// Reads the fallback, if there is one.
#[cfg(feature = "peers")]
fn fallback_of(
    settings: &Settings,
    config: &mut Config,
    purpose: Purpose,
) -> Result<(), ConfigError> {
    super::fallback_settings::read(settings, config, purpose)
}

#[cfg(not(feature = "peers"))]
fn fallback_of(settings: &Settings, _: &mut Config, _: Purpose) -> Result<(), ConfigError> {
    if settings.has_table("fallback") {
        let reason =
            "this program was built without it: enable the feature \"peers\" of the crate tenure";
        return Err(settings.invalid("fallback.members", reason.into()));
    }
    Ok(())
}

/// Reads the addresses of the store, or returns the default address.
///
/// # Errors
///
/// [`ConfigError::Invalid`] if a text is not an http or https address.
pub fn servers_of(settings: &Settings) -> Result<Vec<Endpoint>, ConfigError> {
    if settings.origin("servers").is_none() {
        return Ok(vec![default_server()]);
    }
    let endpoint = |text: &str| {
        text.parse()
            .map_err(|error: EndpointError| error.to_string())
    };
    let servers = settings.items("servers", endpoint)?;
    if servers.is_empty() {
        return Err(settings.invalid("servers", "name at least one address".into()));
    }
    Ok(servers)
}

/// Reads the root certificates from the file `ca_file` or from the text `ca`, or returns those of
/// the operating system. All of them are read again while clients use them.
///
/// # Errors
///
/// [`ConfigError::Invalid`] if the file can't be read, or contains no certificate.
pub fn roots_of(settings: &Settings) -> Result<RootCertificates, ConfigError> {
    let inline = settings.with("ca", |text| match text {
        "" => Ok(None),
        text => roots_of_text(text, settings.file_key("ca")).map(Some),
    })?;
    let in_file = settings.path("ca_file")?.map(|path| {
        let roots = roots_of_file(path);
        roots.map_err(|reason| settings.invalid("ca_file", reason))
    });
    match (inline.flatten(), in_file.transpose()?) {
        (Some(_), Some(_)) => Err(settings.one_too_many("ca", "ca_file")),
        (inline, in_file) => Ok(inline.or(in_file).unwrap_or_default()),
    }
}

#[cfg(feature = "tls")]
fn roots_of_file(path: PathBuf) -> Result<RootCertificates, String> {
    RootCertificates::of_file(path)
}

/// Returns the root certificates in a text, and reads the text again if it is in a file.
#[cfg(feature = "tls")]
fn roots_of_text(text: &str, place: Option<FileKey>) -> Result<RootCertificates, String> {
    match place {
        Some(place) => RootCertificates::of_source(place.to_string(), move || {
            place.read().map(String::into_bytes)
        }),
        None => RootCertificates::from_pem(text.as_bytes()).map_err(|error| error.to_string()),
    }
}

#[cfg(not(feature = "tls"))]
fn roots_of_file(_: PathBuf) -> Result<RootCertificates, String> {
    Err("https needs the feature \"tls\" of the crate tenure".into())
}

#[cfg(not(feature = "tls"))]
fn roots_of_text(text: &str, _: Option<FileKey>) -> Result<RootCertificates, String> {
    roots_of_file(text.into())
}

/// Returns the credential of these settings, for the addresses of the store.
///
/// # Errors
///
/// [`ConfigError::Invalid`]: the file contains no token, other users can read the configuration
/// that contains the token, the files of the client certificate are wrong, or an address must not
/// get the credential.
pub fn credentials_of(settings: &Settings) -> Result<Credentials, ConfigError> {
    let (key, mut credentials) = token_of(settings)?;
    if let Some(certificate) = client_certificate_of(settings)? {
        credentials = credentials.with_certificate(certificate);
    }
    if let (Some(Origin::File { path, .. }), "token") = (settings.origin(key), key) {
        permissions::check_configuration(path).map_err(|reason| settings.invalid(key, reason))?;
    }
    let has_password = |server: &str| Endpoint::shown(server) != server;
    if settings.list("servers").into_iter().any(has_password) {
        settings.warn_of_inline("servers");
    }
    if let Some(server) = servers_of(settings)?
        .iter()
        .find_map(|server| credentials.check(server).err())
    {
        return Err(settings.invalid("servers", server));
    }
    Ok(credentials)
}

/// Returns the token of these settings, and the key of the setting.
fn token_of(settings: &Settings) -> Result<(&'static str, Credentials), ConfigError> {
    let text = |error: CredentialsError| error.to_string();
    let file = settings.secret_path("token_file")?.map(|path| {
        let file = Credentials::token_file(path);
        file.map_err(|error| settings.invalid("token_file", text(error)))
    });
    let token = settings.with("token", |token| match token.trim() {
        "" => Ok(None),
        token => {
            let fixed = Credentials::token(token).map_err(text)?;
            Ok(Some(match settings.file_key("token") {
                Some(place) => {
                    Credentials::token_of(&place.to_string(), move || place.read()).map_err(text)?
                }
                None => fixed,
            }))
        }
    })?;
    match (file.transpose()?, token.flatten()) {
        (Some(_), Some(_)) => Err(settings.one_too_many("token", "token_file")),
        (Some(file), None) => Ok(("token_file", file)),
        (None, Some(token)) => Ok(("token", token)),
        (None, None) => Ok(("token_file", Credentials::none())),
    }
}

/// Returns the client certificate of these settings.
fn client_certificate_of(settings: &Settings) -> Result<Option<ClientCertificate>, ConfigError> {
    let missing =
        |key, other| ConfigError::missing(key, format!("{other} is set, and each needs the other"));
    let certificate = settings.path("client_certificate")?;
    match (certificate, settings.secret_path("client_key")?) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => client_certificate(certificate, key)
            .map(Some)
            .map_err(|error| settings.invalid(error.setting, error.reason)),
        (Some(_), None) => Err(missing("client_key", "client_certificate")),
        (None, Some(_)) => Err(missing("client_certificate", "client_key")),
    }
}

#[cfg(feature = "tls")]
fn client_certificate(
    certificate: PathBuf,
    key: PathBuf,
) -> Result<ClientCertificate, ClientCertificateError> {
    ClientCertificate::from_files(certificate, key)
}

#[cfg(not(feature = "tls"))]
fn client_certificate(
    certificate: PathBuf,
    _: PathBuf,
) -> Result<ClientCertificate, ClientCertificateError> {
    Err(ClientCertificateError {
        setting: "client_certificate",
        path: certificate,
        reason: "https needs the feature \"tls\" of the crate tenure".into(),
    })
}

fn timings_options_of(settings: &Settings) -> Result<TimingsOptions, ConfigError> {
    let mut timings = TimingsOptions::default();
    timings.lease_duration = settings.duration("lease_duration")?;
    timings.renew_interval = settings.duration("renew_interval")?;
    timings.renew_deadline = settings.duration("renew_deadline")?;
    timings.stop_grace = settings.duration("stop_grace")?;
    timings.cool_down = settings.duration("cool_down")?;
    timings.progress_deadline = settings.duration("progress_deadline")?;
    Ok(timings)
}

/// Returns the error for contradicting timings, with the origin of each key that was set.
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
    let metadata = settings.metadata()?;
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

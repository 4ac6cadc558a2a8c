//! A candidate's configuration from a file and the environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tenure_config::{ConfigError, FileKey, Keys, Origin, Scope, Settings, check_configuration};
use tenure_core::ElectionName;
use tenure_core::lease::candidate::{Timings, TimingsError};
use tenure_core::text::without_passwords;
use tenure_core::wire::MAX_METADATA_BYTES;

use super::candidate::{Config, OnOverrun};
use super::strategy::Strategy;
use crate::base::guarantee::Guarantee;
use crate::http::client_certificate::{ClientCertificate, ClientCertificateError};
use crate::http::credentials::{Credentials, CredentialsError};
use crate::http::root_certificates::RootCertificates;
use crate::http::store::{Endpoint, EndpointError};

/// The keys of a candidate.
pub static KEYS: LazyLock<Keys> = LazyLock::new(|| Keys::new(include_str!("keys.toml"), None));

static ALL: [&LazyLock<Keys>; 1] = [&KEYS];

/// The scope of a candidate. A store may have its tables in the same file.
pub(super) static SCOPE: Scope = Scope::new(&ALL, 0).ignoring(&[
    "serve", "cluster", "access", "audit", "metrics", "tls", "azure",
]);

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
    /// lease_duration = "15s"               # the other timings follow from it
    ///
    /// [metadata]
    /// address = "http://10.0.0.7:8080"
    /// ```
    ///
    /// `tenure config example` prints every key with its default; `docs/configuration.md` explains
    /// them.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] that names the file, the line, the key, the value, and a valid value.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::from_settings(&Settings::load(SCOPE, Some(path.as_ref()))?)
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
        let settings = Settings::load(SCOPE, Some(path.as_ref()))?;
        read(&settings, Purpose::Observe)
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
        Self::from_settings(&Settings::of_toml(SCOPE, text, place)?)
    }

    /// Reads the configuration from settings, for a program that has further sources, such as flags.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] that names the origin, the key, the value, and a valid value.
    pub fn from_settings(settings: &Settings) -> Result<Self, ConfigError> {
        read(settings, Purpose::Compete)
    }

    /// Reads `TENURE_*` environment variables only.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] that names the variable, the value, and a valid value.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_settings(&Settings::load(SCOPE, None)?)
    }
}

pub(super) fn election_of(settings: &Settings) -> Result<ElectionName, ConfigError> {
    let reason = "name the election, such as election = \"billing/nightly\"";
    let election = settings.parse("election")?;
    election.ok_or_else(|| ConfigError::missing("election", reason))
}

fn read(settings: &Settings, purpose: Purpose) -> Result<Config, ConfigError> {
    let mut config = Config::new(election_of(settings)?);
    let candidate = settings.parse("candidate")?;
    config.candidate = candidate.unwrap_or(config.candidate);
    config.priority = settings.number("priority")?.unwrap_or(config.priority);
    config.servers = servers_of(settings)?;
    config.roots = roots_of(settings)?;
    config.credentials = credentials_of(settings)?;
    for (name, timing) in config.timings_options.by_name() {
        *timing = settings.duration(name)?;
    }
    config.timings =
        Timings::new(&config.timings_options).map_err(|reason| impossible(settings, &reason))?;
    config.lock_delay = settings.duration("lock_delay")?.unwrap_or_default();
    if settings.text("on_overrun")? == Some("report") {
        config.on_overrun = OnOverrun::Report;
    }
    config.metadata = metadata(settings)?;
    #[cfg(feature = "peers")]
    super::fallback_settings::check_strategy(settings)?;
    config.strategy = strategy_of(settings, &config, purpose)?;
    fallback_of(settings, &mut config, purpose)?;
    if settings.flag("require_fencing")? && config.guarantee() == Guarantee::BestEffort {
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
    if settings.list("strategy") == ["links"] {
        let reason = "for members that reach each other only through others, use \"bully\" with relay = true \
                      in [bully]";
        return Err(settings.invalid("strategy", reason.into()));
    }
    match settings.text("strategy")?.unwrap_or_default() {
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

/// Reads the addresses of the store.
///
/// # Errors
///
/// [`ConfigError::Invalid`] if a text is not an http or https address.
pub fn servers_of(settings: &Settings) -> Result<Vec<Endpoint>, ConfigError> {
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
    let of_text = |text: &str| match text {
        "" => Ok(None),
        text => roots_of_text(text, settings.file_key("ca")).map(Some),
    };
    let roots = settings.text_or_file("ca", of_text, roots_of_file)?;
    Ok(roots.map(|(_, roots)| roots).unwrap_or_default())
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
    if let (Some(Origin::File { path, .. }), "token") = (settings.origin(&key), &*key) {
        check_configuration(path).map_err(|reason| settings.invalid(&key, reason))?;
    }
    let has_password = |server: &str| without_passwords(server) != server;
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
fn token_of(settings: &Settings) -> Result<(String, Credentials), ConfigError> {
    let message = |error: CredentialsError| error.to_string();
    let of_text = |token: &str| match token.trim() {
        "" => Ok(None),
        token => {
            let fixed = Credentials::token(token).map_err(message)?;
            let place = settings.file_key("token");
            let place =
                place.map(|key| Credentials::token_of(&key.to_string(), move || key.read()));
            place.unwrap_or(Ok(fixed)).map(Some).map_err(message)
        }
    };
    let of_file = |path| Credentials::token_file(path).map_err(message);
    let token = settings.text_or_file("token", of_text, of_file)?;
    Ok(token.unwrap_or_else(|| ("token_file".into(), Credentials::none())))
}

/// Returns the client certificate of these settings.
fn client_certificate_of(settings: &Settings) -> Result<Option<ClientCertificate>, ConfigError> {
    let certificate = settings.path("client_certificate")?;
    let key = settings.secret_path("client_key")?;
    settings.check_pair("client_certificate", "client_key")?;
    let read = certificate
        .zip(key)
        .map(|(certificate, key)| client_certificate(certificate, key));
    let read = read.transpose();
    read.map_err(|error| settings.invalid(error.setting, error.reason))
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

/// Returns the error for contradicting timings, with the origin of each key that was set.
fn impossible(settings: &Settings, reason: &TimingsError) -> ConfigError {
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
        _ => ConfigError::Contradiction {
            what: "timings",
            origins,
            reason: reason.to_string(),
        },
    }
}

fn metadata(settings: &Settings) -> Result<BTreeMap<String, String>, ConfigError> {
    let metadata = settings.free_table()?;
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

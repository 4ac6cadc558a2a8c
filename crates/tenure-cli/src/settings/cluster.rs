//! The tables `[cluster]`, `[etcd]` and `[postgres]`: a server whose leases are in a log that it
//! shares with other servers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tenure::Name;
use tenure::store::Endpoint;
use tenure_config::{ConfigError, Origin, Settings};
use tenure_server::{
    ClusterConfig, ClusterMember, Compaction, EtcdConfig, Failover, PostgresConfig, PostgresUrl,
    SharedEngine,
};

pub(crate) const ETCD: &str = "etcd";
pub(crate) const POSTGRES: &str = "postgres";

/// The shortest interval between two compactions. Each costs etcd some work.
const MIN_COMPACTION: Duration = Duration::from_secs(10);

/// The longest name of a schema in PostgreSQL, in bytes.
const MAX_SCHEMA_BYTES: usize = 63;

/// The configuration of a server with this engine and this address; `None` if the engine is not
/// shared.
pub(crate) fn config(
    settings: &Settings,
    engine: &str,
    listen: SocketAddr,
) -> Result<Option<ClusterConfig>, ConfigError> {
    let shared = match engine {
        ETCD => {
            unused(settings, &[POSTGRES], engine)?;
            SharedEngine::Etcd(etcd(settings)?)
        }
        POSTGRES => {
            unused(settings, &[ETCD], engine)?;
            SharedEngine::Postgres(postgres(settings)?)
        }
        _ => {
            unused(settings, &["cluster", ETCD, POSTGRES], engine)?;
            return Ok(None);
        }
    };
    // An image of a container sets the variable for every engine.
    if let Some(Origin::File { .. } | Origin::Flag(_)) = settings.origin("serve.data_dir") {
        let reason = format!(
            "engine = {engine:?} keeps no lease on a disk of this machine: leave data_dir out, or set \
             engine = \"embedded\""
        );
        return Err(settings.invalid("serve.data_dir", reason));
    }
    if let Some(key) = set_key(settings, "azure") {
        let reason = format!(
            "the Azure Blob lease protocol keeps its blobs on a disk, and engine = {engine:?} has \
             none: leave the table out, or set engine = \"embedded\""
        );
        return Err(settings.invalid(key, reason));
    }
    let advertise = advertise(settings, listen)?;
    let mut config = ClusterConfig::new(server(settings)?, advertise, shared);
    if let Some(name) = settings.parse::<Name>("cluster.name")? {
        config.name = name.to_string();
    }
    if let Some(ownership) = settings.duration("cluster.ownership")? {
        config.ownership = ownership;
    }
    config.confirm = settings.flag("cluster.confirm")?;
    Ok(Some(config))
}

/// Checks what the settings of the engine name: the connection string, and the files.
pub(super) fn check(settings: &Settings, config: &ClusterConfig) -> Result<(), ConfigError> {
    ClusterMember::check(config).map_err(|error| {
        let error = error.to_string();
        let named = match &config.engine {
            SharedEngine::Etcd(_) => ["etcd.ca_file", "etcd.certificate", "etcd.key"]
                .into_iter()
                .find(|key| error.contains(key)),
            _ => Some(settings.first_set(&["postgres.url_file", "postgres.url"])),
        };
        settings.invalid(named.unwrap_or("etcd.endpoints"), error)
    })
}

/// Refuses tables that this engine does not use: a server with a forgotten `engine` would be a store
/// of its own, beside that of the cluster.
fn unused(settings: &Settings, tables: &[&str], engine: &str) -> Result<(), ConfigError> {
    for table in tables {
        if let Some(key) = set_key(settings, table) {
            let right = match *table {
                "cluster" => format!("{ETCD:?} or {POSTGRES:?}"),
                table => format!("{table:?}"),
            };
            let reason = format!(
                "the table [{table}] has no effect with engine = {engine:?}: set engine = {right}, or \
                 leave the table out"
            );
            return Err(settings.invalid(key, reason));
        }
    }
    Ok(())
}

/// Returns the first key of this table that is set.
fn set_key(settings: &Settings, table: &str) -> Option<&'static str> {
    let of_table = |key: &&str| key.split_once('.').is_some_and(|(known, _)| known == table);
    let mut keys = settings.keys().map(|key| &*key.name).filter(of_table);
    keys.find(|key| settings.origin(key).is_some())
}

fn server(settings: &Settings) -> Result<String, ConfigError> {
    if let Some(server) = settings.parse::<Name>("cluster.server")? {
        return Ok(server.to_string());
    }
    let host = nix::unistd::gethostname().unwrap_or_default();
    let host = host.to_string_lossy();
    match host.parse::<Name>() {
        Ok(server) => Ok(server.to_string()),
        Err(error) => {
            let reason = format!("the host name {host:?} can't be its default: {error}");
            Err(ConfigError::missing("cluster.server", reason))
        }
    }
}

fn advertise(settings: &Settings, listen: SocketAddr) -> Result<String, ConfigError> {
    let scheme = match settings.required_path("tls.certificate")? {
        None => "http",
        Some(_) => "https",
    };
    let set = settings.with("cluster.advertise", |text| {
        let text = text.trim();
        let url = place(text, "https://store-1.example.com:7400")?;
        let host = url.host_str().unwrap_or_default();
        if ["0.0.0.0", "[::]"].contains(&host) {
            let reason =
                "clients can't connect to it: write the name or the address of this machine";
            return Err(reason.into());
        }
        Ok(text.trim_end_matches('/').to_owned())
    })?;
    match set {
        Some(advertise) => Ok(advertise),
        None if listen.ip().to_canonical().is_loopback() && listen.port() != 0 => {
            Ok(format!("{scheme}://{listen}"))
        }
        None => {
            let reason = format!(
                "{listen} is no address for clients: write the URL at which they reach this server, such \
                 as {scheme}://store-1.example.com:7400"
            );
            Err(ConfigError::missing("cluster.advertise", reason))
        }
    }
}

/// Checks a URL without a password. The error shows this example of a valid one.
fn place(text: &str, example: &str) -> Result<reqwest::Url, String> {
    text.parse::<Endpoint>()
        .map_err(|error| error.to_string())?;
    let url = reqwest::Url::parse(text).map_err(|error| error.to_string())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!(
            "must have no user and no password: write {example}"
        ));
    }
    Ok(url)
}

fn etcd(settings: &Settings) -> Result<EtcdConfig, ConfigError> {
    let example = "https://10.0.0.1:2379";
    let read = |text| place(text, "user and password_file, and the URL without them");
    let urls = settings.items("etcd.endpoints", read)?;
    if urls.is_empty() {
        let reason = format!("list the URLs of the members of etcd, such as [{example:?}]");
        return Err(match settings.origin("etcd.endpoints") {
            Some(_) => settings.invalid("etcd.endpoints", reason),
            None => ConfigError::missing("etcd.endpoints", reason),
        });
    }
    let endpoints = urls
        .iter()
        .map(|url| url.as_str().trim_end_matches('/').into());
    let mut config = EtcdConfig::new(endpoints.collect());
    if let Some(prefix) = settings.with("etcd.prefix", prefix)? {
        config.prefix = prefix;
    }
    let text = |key| Ok(settings.text(key)?.filter(|text| !text.is_empty()));
    config.user = text("etcd.user")?.map(Into::into);
    config.password_file = file(settings, "etcd.password_file")?;
    config.ca_file = file(settings, "etcd.ca_file")?;
    config.certificate = file(settings, "etcd.certificate")?;
    config.key = file(settings, "etcd.key")?;
    settings.secret_path("etcd.password_file")?;
    settings.secret_path("etcd.key")?;
    let is_plain_http_allowed = settings.flag("etcd.allow_plain_http")?;
    settings.check_pair("etcd.user", "etcd.password_file")?;
    settings.check_pair("etcd.certificate", "etcd.key")?;
    for url in urls.iter().filter(|url| url.scheme() == "http") {
        if config.certificate.is_some() {
            let reason = format!("a client certificate needs https addresses, and {url} is none");
            return Err(settings.invalid("etcd.endpoints", reason));
        }
        if config.user.is_some() && !is_loopback(url) {
            let reason = format!("the password would be sent unencrypted to {url}: write https");
            return Err(settings.invalid("etcd.endpoints", reason));
        }
        if !is_plain_http_allowed && !is_loopback(url) {
            let reason = format!(
                "other machines can read the lease ids that are sent to {url}, and change the log: write https, \
                 or set allow_plain_http = true in [etcd] for a network that you trust"
            );
            return Err(settings.invalid("etcd.endpoints", reason));
        }
    }
    if let Some(compact) = settings.with("etcd.compact", compaction)? {
        config.compact = compact;
    }
    Ok(config)
}

fn postgres(settings: &Settings) -> Result<PostgresConfig, ConfigError> {
    let read = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).map_err(|_| "must be UTF-8")?;
        let right = "must have a connection string, such as postgresql://tenure@10.0.0.1/tenure";
        (!text.trim().is_empty())
            .then(|| text.trim().to_owned())
            .ok_or_else(|| right.into())
    };
    let url = match settings.secret("postgres.url", read)? {
        None => {
            let reason = "name a file with the connection string, or set TENURE_POSTGRES_URL";
            return Err(ConfigError::missing("postgres.url_file", reason));
        }
        Some((key, text)) if key == "postgres.url" => PostgresUrl::Text(text),
        Some((key, _)) => PostgresUrl::File(settings.path(&key)?.unwrap_or_default()),
    };
    let mut config = PostgresConfig::new(url);
    let schema = settings.with("postgres.schema", |text| {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let starts = text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        if starts && text.len() <= MAX_SCHEMA_BYTES && text.bytes().all(is_plain) {
            return Ok(text.to_owned());
        }
        Err(format!(
            "must be 1 to {MAX_SCHEMA_BYTES} lower-case letters, digits and _, and begin with no digit"
        ))
    })?;
    if let Some(schema) = schema {
        config.schema = schema;
    }
    config.ca_file = file(settings, "postgres.ca_file")?;
    if settings.text("postgres.failover")? == Some("lossless") {
        config.failover = Failover::Lossless;
    }
    Ok(config)
}

/// The file that a key names, if any. A wrong name is better found before the first request.
fn file(settings: &Settings, key: &str) -> Result<Option<PathBuf>, ConfigError> {
    let path = settings.path(key)?;
    match path.as_ref().map(std::fs::File::open) {
        Some(Err(error)) => Err(settings.invalid(key, format!("can't read it: {error}"))),
        _ => Ok(path),
    }
}

fn prefix(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    if text.len() > 1 && text.ends_with('/') && text.bytes().all(is_plain) {
        return Ok(text.into());
    }
    Err(
        "must be letters, digits, '.', '_', '-' and '/', with a '/' at the end, such as tenure/"
            .into(),
    )
}

fn compaction(text: &str) -> Result<Compaction, String> {
    let right = "write \"auto\", \"off\", or an interval such as \"10m\"";
    match text {
        "auto" => Ok(Compaction::Auto),
        "off" => Ok(Compaction::Off),
        text => match humantime::parse_duration(text) {
            Ok(interval) if interval >= MIN_COMPACTION => Ok(Compaction::Every(interval)),
            Ok(_) => Err(format!("must be at least {MIN_COMPACTION:?}")),
            Err(error) => Err(format!("{error}; {right}")),
        },
    }
}

fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;

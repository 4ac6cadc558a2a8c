//! The home of a store: `home`, `home_file` and `data_dir` in the table `[serve]`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_config::{ConfigError, Origin, Settings, warn_of_secret};
use tenure_core::file_path;
#[cfg(feature = "bucket")]
use tenure_server::BucketConfig;
use tenure_server::{Compaction, EtcdConfig, Failover, Home, HomeUrl, PostgresConfig, PostgresUrl};

const HOME: &str = "serve.home";
const HOME_FILE: &str = "serve.home_file";
const DATA_DIR: &str = "serve.data_dir";

/// The right forms, for messages.
pub(crate) const FORMS: &str = "write \"folder:/var/lib/tenure\", \"memory\", \
     \"postgres://USER@HOST/DATABASE?sslmode=verify-full\", \"etcds://HOST:2379/PREFIX\" or \"s3://BUCKET/PREFIX\"";

/// Why a URL of a bucket with a password is refused.
const BUCKET_SECRET: &str = "must have no user and no password, and its endpoint no query: credentials \
     of a bucket are the variables AWS_*, GOOGLE_* and AZURE_*";

/// The shortest interval between two compactions. Each costs etcd some work.
const MIN_COMPACTION: Duration = Duration::from_secs(10);

/// Where a store keeps its leases.
#[derive(Debug)]
pub(crate) enum StoreHome {
    Folder(PathBuf),
    Memory,
    /// What the servers of a cluster share.
    Shared(Home),
}

/// The home that these settings name, or else the folder `data_dir`.
pub(super) fn read(settings: &Settings) -> Result<StoreHome, ConfigError> {
    let written = settings.text(HOME)?.unwrap_or_default();
    if let Ok(url) = HomeUrl::parse(written)
        && url.has_password()
    {
        let is_bucket = ["s3", "gs", "az"].contains(&&*url.scheme);
        // The value is not shown: the password may be anywhere in it.
        return Err(ConfigError::Invalid {
            origin: settings.origin(HOME).cloned().unwrap_or(Origin::Default),
            key: "home".into(),
            value: "(with a password)".into(),
            reason: match is_bucket {
                true => BUCKET_SECRET,
                false => {
                    "must have no password: write the URL into a file and name it in home_file, or \
                     leave the password to PGPASSFILE or ~/.pgpass (PostgreSQL), or to the parameter \
                     password_file (etcd)"
                }
            }
            .into(),
        });
    }
    if let Some(path) = settings.required_path(HOME_FILE)? {
        warn_of_secret(&path);
    }
    let of_file = |path: PathBuf| {
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| format!("can't read it: {error}"))?;
        home(text.trim(), Some(&path))
            .map_err(|reason| format!("its content is not valid: {reason}"))
    };
    let named = settings.text_or_file(HOME, |text| home(text.trim(), None).map(Some), of_file)?;
    let data_dir = settings.required_path(DATA_DIR)?.unwrap_or_default();
    let (key, home) = match named {
        None => (DATA_DIR.to_owned(), StoreHome::Folder(data_dir)),
        Some((key, home)) => {
            match (settings.origin(&key), settings.origin(DATA_DIR)) {
                // An image of a container sets the variable for every home.
                (_, None | Some(Origin::Environment(_))) => {}
                (home, Some(Origin::File { .. })) if !matches!(home, Some(Origin::File { .. })) => {
                }
                _ => return Err(settings.one_too_many(DATA_DIR, &key)),
            }
            (key, home)
        }
    };
    match &home {
        StoreHome::Folder(path) if path.exists() && !path.is_dir() => {
            Err(settings.invalid(&key, "must be a directory, and this is a file".into()))
        }
        _ => Ok(home),
    }
}

/// Returns the key that names the home.
pub(crate) fn key(settings: &Settings) -> &'static str {
    settings.first_set(&[HOME, HOME_FILE])
}

/// Reads the text of a home, which may be in this file.
fn home(text: &str, file: Option<&Path>) -> Result<StoreHome, String> {
    if let Some(path) = text.strip_prefix("folder:") {
        if path.is_empty() || path.starts_with("//") {
            return Err(format!("must have a path behind folder: {FORMS}"));
        }
        file_path::check(path).map_err(|error| format!("the path {error}"))?;
        return Ok(StoreHome::Folder(path.into()));
    }
    if text == "memory" {
        return Ok(StoreHome::Memory);
    }
    let url = HomeUrl::parse(text).map_err(|error| format!("{error}: {FORMS}"))?;
    let home = match &*url.scheme {
        "postgres" | "postgresql" => Home::Postgres(postgres(text, url, file)?),
        "etcd" | "etcds" => Home::Etcd(etcd(url, file)?),
        #[cfg(feature = "bucket")]
        "s3" | "gs" | "az" => Home::Bucket(bucket(text, &url)?),
        other => return Err(format!("{other}:// is no home: {FORMS}")),
    };
    Ok(StoreHome::Shared(home))
}

/// The server reads the rest of the URL, and reads a file again at each connection.
fn postgres(text: &str, url: HomeUrl, file: Option<&Path>) -> Result<PostgresConfig, String> {
    let mut config = PostgresConfig::new(match file {
        Some(path) => PostgresUrl::File(path.into()),
        None => PostgresUrl::Text(text.into()),
    });
    for (key, value) in url.parameters {
        match (&*key, &*value) {
            ("failover", "none") => config.failover = Failover::None,
            ("failover", "lossless") => config.failover = Failover::Lossless,
            ("failover", _) => {
                return Err(format!("failover={value} must be none or lossless"));
            }
            ("schema", _) => config.schema = value,
            _ => {}
        }
    }
    Ok(config)
}

/// Credentials, region and other settings are those of the environment, or of the machine.
#[cfg(feature = "bucket")]
fn bucket(text: &str, url: &HomeUrl) -> Result<BucketConfig, String> {
    if url.user.is_some() || url.has_password() {
        return Err(BUCKET_SECRET.into());
    }
    let (place, _) = text.split_once('?').unwrap_or((text, ""));
    let mut config = BucketConfig::new(place);
    let mut is_plain_http_allowed = false;
    for (key, value) in &url.parameters {
        match (&**key, &*url.scheme, &**value) {
            ("endpoint", "s3", _) => config.endpoint = Some(value.clone()),
            ("allow_plain_http", "s3", "true") => is_plain_http_allowed = true,
            _ => {
                return Err(format!(
                    "the parameter {key}={value} is not known: a bucket of S3 has endpoint and \
                     allow_plain_http=true, and the other settings are the variables AWS_*, GOOGLE_* and \
                     AZURE_*"
                ));
            }
        }
    }
    let Some(endpoint) = &config.endpoint else {
        return Ok(config);
    };
    let wrong = |reason: &str| format!("endpoint={endpoint}: {reason}");
    let address = HomeUrl::parse(endpoint).map_err(wrong)?;
    let mut hosts = address.hosts.iter();
    match &*address.scheme {
        _ if hosts.len() != 1 => Err(wrong("must have one host, such as https://HOST")),
        "https" => Ok(config),
        "http" if is_plain_http_allowed || hosts.all(|(host, _)| is_local(host)) => Ok(config),
        "http" => Err(wrong(
            "other machines can read lease ids that are sent there, and change the log: write \
             https://, or add allow_plain_http=true for a network that you trust",
        )),
        _ => Err(wrong(
            "must begin with https://, or with http:// on this machine or with allow_plain_http=true",
        )),
    }
}

/// Whether a host is this machine.
fn is_local(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn etcd(url: HomeUrl, file: Option<&Path>) -> Result<EtcdConfig, String> {
    let scheme = match &*url.scheme {
        "etcds" => "https",
        _ => "http",
    };
    let members = url.hosts.iter().map(|(host, port)| {
        let port = port.unwrap_or(2379);
        format!("{scheme}://{host}:{port}")
    });
    let mut config = EtcdConfig::new(members.collect());
    if !url.path.is_empty() {
        config.prefix = prefix(&url.path)?;
    }
    config.user = url.user;
    if url.password.is_some() {
        config.password_file = file.map(Into::into);
    }
    let mut is_plain_http_allowed = false;
    for (key, value) in &url.parameters {
        match (&**key, &**value) {
            ("password_file", _) => config.password_file = Some(readable(key, value)?),
            ("ca_file", _) => config.ca_file = Some(readable(key, value)?),
            ("certificate", _) => config.certificate = Some(readable(key, value)?),
            ("key", _) => config.key = Some(readable(key, value)?),
            ("compact", _) => config.compact = compaction(value)?,
            ("allow_plain_http", "true") => is_plain_http_allowed = true,
            _ => {
                return Err(format!(
                    "the parameter {key}={value} is not known: known are password_file, ca_file, \
                     certificate, key, compact, allow_plain_http=true"
                ));
            }
        }
    }
    let has_secret = config.user.is_some() || config.certificate.is_some();
    let is_exposed = |host: &str| !is_local(host) && (has_secret || !is_plain_http_allowed);
    let mut hosts = url.hosts.iter().map(|(host, _)| host);
    match hosts.find(|host| scheme == "http" && is_exposed(host)) {
        None => Ok(config),
        Some(host) => Err(format!(
            "other machines can read passwords and lease ids that are sent to {host}, and change the log: \
             write etcds://, or without a user allow_plain_http=true for a network that you trust"
        )),
    }
}

/// The file that a parameter names. A wrong name is better found before the first request.
fn readable(key: &str, value: &str) -> Result<PathBuf, String> {
    file_path::check(value).map_err(|error| format!("{key}={value} {error}"))?;
    if ["password_file", "key"].contains(&key) {
        warn_of_secret(Path::new(value));
    }
    match File::open(value) {
        Ok(_) => Ok(value.into()),
        Err(error) => Err(format!("{key}={value}: can't read it: {error}")),
    }
}

fn prefix(path: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    let path = path.trim_end_matches('/');
    if !path.is_empty() && path.bytes().all(is_plain) {
        return Ok(format!("{path}/"));
    }
    Err("the prefix behind the hosts must be letters, digits, '.', '_', '-' and '/', such as /tenure".into())
}

fn compaction(text: &str) -> Result<Compaction, String> {
    let interval = humantime::parse_duration(text).ok();
    match (text, interval.filter(|it| *it >= MIN_COMPACTION)) {
        ("auto", _) => Ok(Compaction::Auto),
        ("off", _) => Ok(Compaction::Off),
        (_, Some(interval)) => Ok(Compaction::Every(interval)),
        _ => Err(format!(
            "compact={text} must be auto, off, or an interval of at least {MIN_COMPACTION:?}, such as 10m"
        )),
    }
}

//! The settings in a connection string, with the meaning that they have in libpq, and with the
//! variables `PG*` and the password file for what it lacks.
//!
//! The driver reads such strings, too. But it does not know `verify-full`, connects to all hosts with one
//! password, and its errors can contain a part of it.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_core::file_path;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tracing::warn;

use super::error::TLS;
use crate::tls::{Tls, TlsCheck};
use crate::{HomeUrl, describe};

/// A right connection string, for messages.
const EXAMPLE: &str = "write `postgres://tenure@a,b/tenure?sslmode=verify-full`, with \
    special characters percent-encoded";

/// All keys, for messages.
const KNOWN: &str = "host, port, dbname, user, password, passfile, sslmode, sslrootcert, sslcert, \
    sslkey, channel_binding, application_name, options, connect_timeout, target_session_attrs, \
    schema, failover";

/// A connection string that was understood.
#[derive(Debug)]
pub(super) struct Settings {
    /// The servers, in the order of the string. Each configuration has one host.
    pub(super) servers: Vec<Server>,
    pub(super) tls: Tls,
}

/// One PostgreSQL server of a connection string.
#[derive(Debug)]
pub(super) struct Server {
    /// Its host and port, for messages.
    pub(super) name: String,
    pub(super) config: Config,
}

impl Settings {
    /// Reads a connection string. `attempt` is the time limit of a call, and `variable` returns the
    /// value of a variable of the environment.
    ///
    /// # Errors
    ///
    /// A message that contains no part of the password.
    pub(super) fn parse(
        text: &str,
        attempt: Duration,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut settings = settings_of(text, &variable)?;
        let mut take = |key: &str| settings.remove(key);
        // The home has read these.
        let _ = (take("schema"), take("failover"));
        let hosts = take("host").unwrap_or_default();
        let ports = take("port").unwrap_or_else(|| "5432".into());
        let mode = take("sslmode");
        // Each new connection asks the server whether it accepts writes.
        if take("target_session_attrs").is_some_and(|server| server != "read-write") {
            let right = "read-write: the log is written";
            return Err(invalid("target_session_attrs", right));
        }
        let mut path = |key: &str| {
            let value = take(key);
            if let Some(value) = &value {
                let checked = file_path::check(value);
                checked.map_err(|error| format!("the value of {key} {error}"))?;
            }
            Ok::<_, String>(value.map(PathBuf::from))
        };
        let (certificate, key) = (path("sslcert")?, path("sslkey")?);
        let authorities = path("sslrootcert")?.filter(|file| file != Path::new("system"));
        let folder = variable("HOME").unwrap_or_default();
        let passwords = path("passfile")?.unwrap_or_else(|| Path::new(&folder).join(".pgpass"));

        let hosts: Vec<&str> = hosts.split(',').collect();
        if hosts.contains(&"") {
            return Err(format!("host is missing; {EXAMPLE}"));
        }
        let check = match mode.as_deref() {
            Some("disable") => TlsCheck::Off,
            // As with libpq: a file with authorities turns `require` into `verify-ca`.
            Some("require") if authorities.is_none() => TlsCheck::Nothing,
            Some("require" | "verify-ca") => TlsCheck::Authority,
            Some("verify-full") => TlsCheck::Host,
            Some(mode @ ("allow" | "prefer")) => {
                return Err(format!(
                    "sslmode={mode} is not supported, because it sends the password without \
                     encryption if anything on the network asks for that: use verify-full, or \
                     disable in a network that you trust"
                ));
            }
            Some(_) => {
                let right = "verify-full, verify-ca, require or disable";
                return Err(invalid("sslmode", right));
            }
            None if hosts.iter().all(|host| is_local(host)) => TlsCheck::Off,
            None => {
                return Err(
                    "sslmode is missing: use sslmode=verify-full (TLS, and the certificate must \
                     be valid for the host), or sslmode=disable in a network that you trust"
                        .into(),
                );
            }
        };
        let config = config_of(settings, check, attempt)?;
        if config.get_user().is_none() {
            return Err(format!("user is missing; {EXAMPLE}"));
        }
        Ok(Self {
            servers: servers(&hosts, &ports, &config, &passwords)?,
            tls: Tls {
                names: &TLS,
                authorities,
                certificate,
                key,
                check,
            },
        })
    }
}

/// Returns the keys and values of a string and of the environment.
fn settings_of(
    text: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, String>, String> {
    let wrong = |reason| format!("{reason}; {EXAMPLE}");
    let url = HomeUrl::parse(text.trim()).map_err(wrong)?;
    if !["postgres", "postgresql"].contains(&&*url.scheme) {
        return Err(wrong("it is not a URL of PostgreSQL"));
    }
    // A part of a password may look like a key.
    let is_secret = url.has_password() || url.parameters.iter().any(|(_, it)| it.contains('@'));
    let hosts = url.hosts.iter().map(|(host, port)| {
        let port = port.unwrap_or(5432).to_string();
        (host.trim_matches(['[', ']']), port)
    });
    let (hosts, ports): (Vec<_>, Vec<_>) = hosts.unzip();
    let has_port = url.hosts.iter().any(|(_, port)| port.is_some());
    let of_front = [
        ("host", Some(hosts.join(","))),
        ("port", has_port.then(|| ports.join(","))),
        ("user", url.user),
        ("password", url.password),
        ("dbname", Some(url.path)),
    ];
    let of_front = of_front.map(|(key, value)| (key.to_owned(), value.unwrap_or_default()));
    let mut settings = BTreeMap::from(of_front);
    for (index, (key, value)) in url.parameters.into_iter().enumerate() {
        if KNOWN.split(", ").all(|known| known != key) {
            let name = match is_secret {
                true => (index + 1).to_string(),
                false => key,
            };
            return Err(format!("parameter {name} is not known: known are {KNOWN}"));
        }
        // In libpq it may be missing, but then the name is most likely wrong.
        if key == "passfile" && !value.is_empty() {
            file_path::check(&value).map_err(|error| format!("the value of {key} {error}"))?;
            let opened = fs::File::open(&value);
            opened.map_err(|error| format!("{key}={value}: can't read it: {error}"))?;
        }
        settings.insert(key, value);
    }
    for key in KNOWN.split(", ") {
        let present = settings.entry(key.to_owned()).or_default();
        if present.is_empty() {
            *present = variable(&variable_of(key)).unwrap_or_default();
        }
    }
    settings.retain(|_, value| !value.is_empty());
    Ok(settings)
}

/// Returns the variable of libpq for a key.
fn variable_of(key: &str) -> String {
    match key {
        "dbname" => "PGDATABASE".into(),
        "application_name" => "PGAPPNAME".into(),
        "connect_timeout" => "PGCONNECT_TIMEOUT".into(),
        key => format!("PG{}", key.replace('_', "").to_uppercase()),
    }
}

fn invalid(key: &str, right: &str) -> String {
    format!("the value of {key} is not valid: use {right}")
}

/// The defaults of the driver's settings. A connection is given up after an attempt. So the times only find
/// a peer that is gone while the connection is idle, and end what is left of a connection in the kernel.
const DEFAULTS: &str = "application_name=tenure keepalives_idle=5 keepalives_interval=2 \
    keepalives_retries=3";

/// Returns the configuration of the driver with these settings.
fn config_of(
    settings: BTreeMap<String, String>,
    check: TlsCheck,
    attempt: Duration,
) -> Result<Config, String> {
    let mut text = DEFAULTS.to_owned();
    for (key, value) in settings {
        let value = value.replace('\\', "\\\\").replace('\'', "\\'");
        text = format!("{text} {key}='{value}'");
    }
    let config = text.parse::<Config>();
    // The text of the error is not shown: it must not show a part of a password.
    let mut config = config.map_err(|error| match describe(&error) {
        text if text.contains("connect_timeout") => invalid("connect_timeout", "a whole number"),
        _ => invalid("channel_binding", "disable, prefer or require"),
    })?;
    config.tcp_user_timeout(attempt * 2).ssl_mode(match check {
        TlsCheck::Off => SslMode::Disable,
        _ => SslMode::Require,
    });
    Ok(config)
}

/// Returns a configuration for each of these hosts. The file has the passwords, if `config` has none.
fn servers(
    hosts: &[&str],
    ports: &str,
    config: &Config,
    passwords: &Path,
) -> Result<Vec<Server>, String> {
    let ports: Result<Vec<u16>, _> = ports.split(',').map(str::parse).collect();
    let ports = ports.map_err(|_| invalid("port", "port numbers"))?;
    if ports.len() > 1 && ports.len() != hosts.len() {
        return Err(format!(
            "port has {} values, and there are {} hosts: give one port, or one for each",
            ports.len(),
            hosts.len()
        ));
    }
    let servers = hosts.iter().zip(ports.iter().cycle()).map(|(host, port)| {
        let mut config = config.clone();
        config.host(*host).port(*port);
        if config.get_password().is_none() {
            let is_socket = host.starts_with('/');
            let host = if is_socket { "localhost" } else { host };
            let user = config.get_user().unwrap_or_default();
            let database = config.get_dbname().unwrap_or(user);
            let place = [host, &port.to_string(), database, user];
            if let Some(password) = password(passwords, place) {
                config.password(password);
            }
        }
        let name = format!("{host}:{port}");
        Server { name, config }
    });
    Ok(servers.collect())
}

/// Whether a server is on this machine.
fn is_local(host: &str) -> bool {
    let is_loopback = host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    host.starts_with('/') || host == "localhost" || is_loopback
}

/// Returns the password in the first line `host:port:database:user:password` for this place. As in
/// libpq, a file that other users can read has none.
fn password(path: &Path, place: [&str; 4]) -> Option<String> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let path = path.display();
        warn!("{path} is not used, because other users can read it: run chmod 600 {path}");
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| password_in(line, place))
}

fn password_in(line: &str, place: [&str; 4]) -> Option<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(next) = characters.next() {
        let last = fields.len() - 1;
        match next {
            ':' if last < 4 => fields.push(String::new()),
            '\\' => fields[last].extend(characters.next()),
            next => fields[last].push(next),
        }
    }
    let password = fields.pop().filter(|_| fields.len() == 4)?;
    let mut pairs = fields.iter().zip(place);
    pairs
        .all(|(field, part)| field == "*" || field == part)
        .then_some(password)
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::ChannelBinding;

    use super::*;

    fn parse(text: &str) -> Result<Settings, String> {
        Settings::parse(text, Duration::from_millis(500), |_| None)
    }

    fn names(settings: &Settings) -> Vec<&str> {
        let names = settings.servers.iter();
        names.map(|server| server.name.as_str()).collect()
    }

    #[test]
    fn a_url_names_servers_user_password_and_database() {
        let url = "postgresql://me:p%40%20%5Css'w@a:5433,b:5434/d?sslmode=verify-full";
        let settings = parse(url).unwrap();
        assert_eq!(names(&settings), ["a:5433", "b:5434"]);
        assert_eq!(settings.tls.check, TlsCheck::Host);
        let config = &settings.servers[1].config;
        assert_eq!(config.get_user(), Some("me"));
        assert_eq!(config.get_password(), Some(&b"p@ \\ss'w"[..]));
        assert_eq!(config.get_dbname(), Some("d"));
        assert_eq!(config.get_ssl_mode(), SslMode::Require);
        let settings = parse("postgres://u@[::1]:6000,[::1]/d").unwrap();
        assert_eq!(names(&settings), ["::1:6000", "::1:5432"]);
        assert!(parse("host=a user=u sslmode=disable").is_err());
    }

    #[test]
    fn what_a_url_lacks_comes_from_the_environment_and_from_the_password_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "b:6000:e:me:of b\n*:*:*:*:any\n").unwrap();
        let passfile = file.path().to_str().unwrap();
        let all = [
            ("PGHOST", "a,b"),
            ("PGPORT", "6000"),
            ("PGDATABASE", "e"),
            ("PGUSER", "me"),
            ("PGSSLMODE", "verify-ca"),
            ("PGPASSFILE", passfile),
            ("PGAPPNAME", ""),
        ];
        let with = |text: &str, variables: &[(&str, &str)]| {
            let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
            let variable = |name: &str| value(name).map(|(_, value)| (*value).to_owned());
            Settings::parse(text, Duration::from_millis(500), variable).unwrap()
        };
        let password = |server: &Server| {
            let password = server.config.get_password().unwrap_or_default();
            String::from_utf8(password.into()).unwrap()
        };
        let settings = with("postgres://", &all);
        assert_eq!(names(&settings), ["a:6000", "b:6000"]);
        assert_eq!(settings.tls.check, TlsCheck::Authority);
        let passwords: Vec<_> = settings.servers.iter().map(password).collect();
        assert_eq!(passwords, ["any", "of b"]);
        let config = &settings.servers[0].config;
        assert_eq!(config.get_application_name(), Some("tenure"));
        assert_eq!(config.get_dbname(), Some("e"));

        let settings = with("postgres://u:p@c:1/d?sslmode=disable", &all);
        assert_eq!(names(&settings), ["c:1"]);
        assert_eq!(settings.tls.check, TlsCheck::Off);
        let server = &settings.servers[0];
        assert_eq!(server.config.get_user(), Some("u"));
        assert_eq!(password(server), "p");
        let folder = tempfile::tempdir().unwrap();
        fs::copy(file.path(), folder.path().join(".pgpass")).unwrap();
        let home = ("HOME", folder.path().to_str().unwrap());
        let settings = with("postgres://u@[::1]", &[home]);
        assert_eq!(password(&settings.servers[0]), "any");
        let settings = with("postgres://u@[::1]", &[home, ("PGPASSWORD", "q")]);
        assert_eq!(password(&settings.servers[0]), "q");
        let passfile = format!("postgres://u@[::1]?passfile={passfile}");
        assert_eq!(password(&with(&passfile, &[]).servers[0]), "any");
    }

    #[test]
    fn one_port_is_for_all_hosts() {
        let settings = parse("postgres://u@a,b?port=6000&sslmode=disable").unwrap();
        assert_eq!(names(&settings), ["a:6000", "b:6000"]);
        assert!(parse("postgres://u@a,b,c?port=1,2&sslmode=disable").is_err());
    }

    #[test]
    fn a_remote_server_needs_an_sslmode_and_a_local_one_does_not() {
        let error = parse("postgres://u@127.0.0.1,db.example").unwrap_err();
        assert!(error.contains("sslmode is missing"), "{error}");
        let local = parse("postgres://u@?host=127.0.0.1,/run/postgresql").unwrap();
        assert_eq!(local.tls.check, TlsCheck::Off);
        let local = parse("postgres://u@%2Frun%2Fpostgresql/d").unwrap();
        assert_eq!(names(&local), ["/run/postgresql:5432"]);
        for mode in ["prefer", "allow"] {
            let error = parse(&format!("postgres://u@a?sslmode={mode}")).unwrap_err();
            assert!(error.contains("is not supported"), "{error}");
        }
        for (mode, check) in [
            ("require", TlsCheck::Nothing),
            ("verify-ca", TlsCheck::Authority),
        ] {
            let settings = parse(&format!("postgres://u@a?sslmode={mode}")).unwrap();
            assert_eq!(settings.tls.check, check);
        }
    }

    #[test]
    fn no_error_contains_a_part_of_the_password() {
        for text in [
            "host=a user=u password=my secret=word sslmode=disable",
            "postgresql://u:secret@a:b:c/d",
            "postgresql://u:se/secret@a/d?sslmode=disable",
            "postgresql://u:a?secret@a/d?sslmode=disable",
            "postgresql://u@a/d?password=a&secret=1&sslmode=disable",
            "secret",
            "postgresql://u:secret word@a/d",
            "postgresql://u@a/d?password=secret&sslmode=secret",
            "postgresql://u@a/d?password=a&port=secret",
            "postgresql://u:1?secret=x@a/d",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.contains("secret"), "{text}: {error}");
        }
        let settings = parse("postgres://u:secret@[::1]").unwrap();
        assert!(!format!("{settings:?}").contains("secret"));
    }

    #[test]
    fn a_certificate_file_is_a_path() {
        for key in ["sslrootcert", "sslcert", "sslkey"] {
            let error = parse(&format!("postgres://u@a?sslmode=verify-full&{key}=~/a.pem"));
            let error = error.unwrap_err();
            assert!(
                error.contains(key) && error.contains("whole path"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_wrong_value_is_named_with_the_right_ones() {
        for (option, right) in [
            ("port=x", "port numbers"),
            ("connect_timeout=1s", "a whole number"),
            ("channel_binding=on", "disable, prefer or require"),
        ] {
            let error = parse(&format!("postgresql://u@[::1]/d?{option}")).unwrap_err();
            let key = option.split('=').next().unwrap();
            assert_eq!(
                error,
                format!("the value of {key} is not valid: use {right}")
            );
        }
        let error = parse("postgres://u@a?sslmode=disable&word=1").unwrap_err();
        assert!(error.contains("parameter word is not known"), "{error}");
        let error = parse("postgres://u@[::1]?passfile=/no/such").unwrap_err();
        assert!(
            error.contains("passfile=/no/such: can't read it"),
            "{error}"
        );
    }

    #[test]
    fn an_at_sign_belongs_to_the_part_in_which_it_is() {
        let settings = parse("postgresql://u:p@w@a/d@b?sslmode=disable&options=-c@x").unwrap();
        let config = &settings.servers[0].config;
        assert_eq!(names(&settings), ["a:5432"]);
        assert_eq!(config.get_password(), Some(&b"p@w"[..]));
        assert_eq!(config.get_dbname(), Some("d@b"));
        assert_eq!(config.get_options(), Some("-c@x"));
    }

    #[test]
    fn settings_of_the_driver_have_defaults_that_a_string_replaces() {
        let of = |parameters: &str| {
            let mut settings = parse(&format!("postgres://u@[::1]?{parameters}")).unwrap();
            settings.servers.remove(0).config
        };
        let config = of("");
        assert_eq!(config.get_application_name(), Some("tenure"));
        assert_eq!(config.get_connect_timeout(), None);
        assert_eq!(config.get_keepalives_idle(), Duration::from_secs(5));
        assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(1)));
        let config = of("application_name=a&connect_timeout=7&channel_binding=require");
        assert_eq!(config.get_application_name(), Some("a"));
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(config.get_channel_binding(), ChannelBinding::Require);
    }

    #[test]
    fn a_standby_or_a_service_file_cannot_be_asked_for() {
        for value in ["standby", "any", "primary"] {
            let error = parse(&format!("postgres://u@[::1]?target_session_attrs={value}"));
            assert!(error.unwrap_err().contains("use read-write"), "{value}");
        }
        assert!(parse("postgres://u@[::1]?service=a").is_err());
        assert!(parse("postgres://u@[::1]?target_session_attrs=read-write").is_ok());
    }

    #[test]
    fn the_first_line_for_a_place_has_the_password() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "# a comment\n\nother:5432:d:u:wrong\na:5432:d:u:s\\:e\\\\c:ret\n*:*:*:u:any\n";
        fs::write(file.path(), text).unwrap();
        let found = |place| password(file.path(), place);
        assert_eq!(found(["a", "5432", "d", "u"]).unwrap(), "s:e\\c:ret");
        assert_eq!(found(["a", "5433", "d", "u"]).unwrap(), "any");
        assert_eq!(found(["a", "5432", "d", "v"]), None);
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(found(["a", "5432", "d", "u"]), None);
    }
}

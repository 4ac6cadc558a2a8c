//! The settings in a connection string, with the meaning that they have in libpq.
//!
//! The driver does not know `verify-full` and counts `tcp_user_timeout` in seconds, and its errors
//! can contain a part of a password.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tenure_core::file_path;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use super::connection_string::{self, EXAMPLE, invalid, settings_of};
use super::password_file;

/// A connection string that was understood.
#[derive(Debug)]
pub(super) struct Settings {
    /// The servers, in the order of the string. Each configuration has one host.
    pub(super) servers: Vec<Server>,
    pub(super) user: String,
    pub(super) encryption: Encryption,
    /// The `sslrootcert`; `None` for the authorities of the operating system.
    pub(super) root_certificate: Option<PathBuf>,
    /// The certificate of this client and its key, in PEM files.
    pub(super) client_certificate: Option<(PathBuf, PathBuf)>,
}

/// One PostgreSQL server of a connection string.
#[derive(Debug)]
pub(super) struct Server {
    /// Its host and port, for messages.
    pub(super) name: String,
    pub(super) config: Config,
}

/// The `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    /// `disable`: no TLS.
    None,
    /// `require`: TLS. The certificate is checked only if there is a file with authorities.
    Unverified,
    /// `verify-ca`: the certificate must be from one of the authorities.
    Authority,
    /// `verify-full`: also the host name must be in the certificate.
    Full,
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
        let settings = settings_of(text, &variable)?;
        let (mut hosts, mut addresses, mut ports) = (Vec::new(), Vec::new(), Vec::new());
        let folder = variable("HOME").unwrap_or_default();
        let mut password_file = PathBuf::from(folder).join(".pgpass");
        // These only end what is left of a connection in the kernel.
        let (mut user_timeout, mut retries) = (attempt * 2, 3);
        let (mut encryption, mut root_certificate) = (None, None);
        let (mut certificate, mut key_file) = (None, None);
        let mut of_driver = Vec::new();
        for (key, value) in &settings {
            let (key, value) = (key.as_str(), value.as_str());
            match key {
                "host" => hosts = value.split(',').collect(),
                "hostaddr" => {
                    addresses =
                        parsed::<IpAddr>(value).ok_or_else(|| invalid(key, "IP addresses"))?;
                }
                "port" => {
                    ports = parsed::<u16>(value).ok_or_else(|| invalid(key, "port numbers"))?
                }
                "tcp_user_timeout" => {
                    user_timeout = Duration::from_millis(number(key, value)?.into());
                }
                "keepalives_count" => retries = number(key, value)?,
                "sslmode" => encryption = Some(encryption_of(value)?),
                "sslrootcert" if value == "system" => {}
                "sslrootcert" => root_certificate = Some(path(key, value)?),
                "passfile" => password_file = path(key, value)?,
                "sslcert" => certificate = Some(path(key, value)?),
                "sslkey" => key_file = Some(path(key, value)?),
                // Each new connection asks the server whether it accepts writes.
                "target_session_attrs" if ["any", "primary", "read-write"].contains(&value) => {}
                "target_session_attrs" => {
                    return Err(invalid(key, "read-write: the log is written"));
                }
                "gssencmode" if ["disable", "prefer"].contains(&value) => {}
                "load_balance_hosts" if value == "disable" => {}
                "gssencmode" | "load_balance_hosts" => return Err(invalid(key, "disable")),
                "service" => {
                    return Err("service is not supported: write its settings into the URL".into());
                }
                _ => of_driver.push((key, value)),
            }
        }
        let mut config = connection_string::config(&of_driver)?;
        config
            .tcp_user_timeout(user_timeout)
            .keepalives_retries(retries);
        let user = config.get_user().unwrap_or_default().to_owned();
        if user.is_empty() {
            return Err(format!("user is missing; {EXAMPLE}"));
        }
        let client_certificate = match (certificate, key_file) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => return Err("sslcert and sslkey must be set together".into()),
        };
        let encryption = match encryption {
            Some(encryption) => encryption,
            None if is_local(&hosts, &addresses) => Encryption::None,
            None => {
                return Err(
                    "sslmode is missing: use sslmode=verify-full (TLS, and the certificate must \
                     be valid for the host), or sslmode=disable in a network that you trust"
                        .into(),
                );
            }
        };
        config.ssl_mode(match encryption {
            Encryption::None => SslMode::Disable,
            _ => SslMode::Require,
        });
        Ok(Self {
            servers: servers((&hosts, &addresses, &ports), &config, &password_file)?,
            user,
            encryption,
            root_certificate,
            client_certificate,
        })
    }
}

/// Returns a configuration for each of these hosts, addresses and ports. The file has the passwords, if
/// `config` has none.
fn servers(
    (hosts, addresses, ports): (&[&str], &[IpAddr], &[u16]),
    config: &Config,
    passwords: &Path,
) -> Result<Vec<Server>, String> {
    let count = hosts.len().max(addresses.len());
    if count == 0 || hosts.contains(&"") {
        return Err(format!("host is missing; {EXAMPLE}"));
    }
    if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
        return Err("host and hostaddr must have the same number of values".into());
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(format!(
            "port has {} values, and there are {count} hosts: give one port, or one for each",
            ports.len()
        ));
    }
    let servers = (0..count).map(|index| {
        let mut config = config.clone();
        let port = ports.get(index).or_else(|| ports.first());
        let port = port.copied().unwrap_or(5432);
        config.port(port);
        let address = addresses.get(index);
        let name = hosts.get(index).map(|host| (*host).to_owned());
        if let Some(name) = &name {
            config.host(name);
        }
        if let Some(address) = address {
            config.hostaddr(*address);
        }
        let name = name
            .or_else(|| address.map(ToString::to_string))
            .unwrap_or_default();
        if config.get_password().is_none() {
            let is_local = name.starts_with('/');
            let host = if is_local { "localhost" } else { &name };
            let user = config.get_user().unwrap_or_default();
            let database = config.get_dbname().unwrap_or(user);
            let place = [host, &port.to_string(), database, user];
            if let Some(password) = password_file::password(passwords, place) {
                config.password(password);
            }
        }
        let name = format!("{name}:{port}");
        Server { name, config }
    });
    Ok(servers.collect())
}

fn encryption_of(value: &str) -> Result<Encryption, String> {
    match value {
        "disable" => Ok(Encryption::None),
        "require" => Ok(Encryption::Unverified),
        "verify-ca" => Ok(Encryption::Authority),
        "verify-full" => Ok(Encryption::Full),
        "allow" | "prefer" => Err(format!(
            "sslmode={value} is not supported, because it sends the password without encryption \
             if anything on the network asks for that: use verify-full, or disable in a network \
             that you trust"
        )),
        _ => Err(invalid(
            "sslmode",
            "verify-full, verify-ca, require or disable",
        )),
    }
}

/// Whether all servers are on this machine.
fn is_local(hosts: &[&str], addresses: &[IpAddr]) -> bool {
    let is_local = |host: &&str| {
        let is_loopback = host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        host.starts_with('/') || *host == "localhost" || is_loopback
    };
    match addresses {
        [] => hosts.iter().all(is_local),
        addresses => addresses.iter().all(IpAddr::is_loopback),
    }
}

/// Reads values with commas between them.
fn parsed<T: FromStr>(values: &str) -> Option<Vec<T>> {
    values.split(',').map(|value| value.parse().ok()).collect()
}

fn path(key: &str, value: &str) -> Result<PathBuf, String> {
    file_path::check(value).map_err(|error| format!("the value of {key} {error}"))?;
    Ok(value.into())
}

fn number(key: &str, value: &str) -> Result<u32, String> {
    value.parse().map_err(|_| invalid(key, "a whole number"))
}

#[cfg(test)]
mod tests {
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
        assert_eq!(settings.encryption, Encryption::Full);
        assert_eq!(settings.user, "me");
        let config = &settings.servers[1].config;
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
        std::fs::write(file.path(), "b:6000:e:me:of b\n*:*:*:*:any\n").unwrap();
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
        assert_eq!(settings.encryption, Encryption::Authority);
        let passwords: Vec<_> = settings.servers.iter().map(password).collect();
        assert_eq!(passwords, ["any", "of b"]);
        let config = &settings.servers[0].config;
        assert_eq!(config.get_application_name(), Some("tenure"));
        assert_eq!(config.get_dbname(), Some("e"));

        let settings = with("postgres://u:p@c:1/d?sslmode=disable", &all);
        assert_eq!(names(&settings), ["c:1"]);
        assert_eq!(settings.encryption, Encryption::None);
        assert_eq!(
            (&*settings.user, &*password(&settings.servers[0])),
            ("u", "p")
        );
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(file.path(), folder.path().join(".pgpass")).unwrap();
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
    fn the_user_timeout_is_in_milliseconds_as_in_libpq() {
        let settings = parse("postgres://u@[::1]?tcp_user_timeout=700").unwrap();
        let timeout = settings.servers[0].config.get_tcp_user_timeout();
        assert_eq!(timeout, Some(&Duration::from_millis(700)));
    }

    #[test]
    fn a_remote_server_needs_an_sslmode_and_a_local_one_does_not() {
        let error = parse("postgres://u@127.0.0.1,db.example").unwrap_err();
        assert!(error.contains("sslmode is missing"), "{error}");
        let local = parse("postgres://u@?host=127.0.0.1,/run/postgresql").unwrap();
        assert_eq!(local.encryption, Encryption::None);
        let local = parse("postgres://u@%2Frun%2Fpostgresql/d").unwrap();
        assert_eq!(names(&local), ["/run/postgresql:5432"]);
        for mode in ["prefer", "allow"] {
            let error = parse(&format!("postgres://u@a?sslmode={mode}")).unwrap_err();
            assert!(error.contains("is not supported"), "{error}");
        }
        for (mode, encryption) in [
            ("require", Encryption::Unverified),
            ("verify-ca", Encryption::Authority),
        ] {
            let settings = parse(&format!("postgres://u@a?sslmode={mode}")).unwrap();
            assert_eq!(settings.encryption, encryption);
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
            ("hostaddr=a", "IP addresses"),
            ("keepalives_idle=1s", "a whole number"),
            ("keepalives_count=x", "a whole number"),
            ("channel_binding=on", "disable, prefer or require"),
            ("sslnegotiation=tls", "postgres or direct"),
        ] {
            let error = parse(&format!("postgresql://u@[::1]/d?{option}")).unwrap_err();
            let key = option.split('=').next().unwrap();
            assert_eq!(
                error,
                format!("the value of {key} is not valid: use {right}")
            );
        }
        let error = parse("postgres://u@a?sslmode=disable&word=1").unwrap_err();
        assert!(error.contains("parameter 2 is not known"), "{error}");
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
        let settings = parse("postgres://u@[::1]?keepalives_interval=7").unwrap();
        let config = &settings.servers[0].config;
        assert_eq!(config.get_application_name(), Some("tenure"));
        assert_eq!(config.get_keepalives_idle(), Duration::from_secs(5));
        assert_eq!(
            config.get_keepalives_interval(),
            Some(Duration::from_secs(7))
        );
        assert_eq!(config.get_keepalives_retries(), Some(3));
        assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(1)));
    }

    #[test]
    fn a_standby_or_a_service_file_cannot_be_asked_for() {
        for option in ["target_session_attrs=standby", "service=a"] {
            assert!(parse(&format!("postgres://u@[::1]?{option}")).is_err());
        }
        assert!(parse("postgres://u@[::1]?target_session_attrs=primary").is_ok());
    }
}

//! The settings in a connection string, with the meaning that they have in libpq.
//!
//! The driver does not know `verify-full` and counts `tcp_user_timeout` in seconds, and its errors
//! can contain a part of a password.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tenure_core::file_path;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::connection_string::{EXAMPLE, Parts, invalid};

/// A connection string that was understood.
#[derive(Debug)]
pub(super) struct Settings {
    /// The servers, in the order of the string. Each configuration has one host.
    pub(super) servers: Vec<Server>,
    pub(super) user: String,
    pub(super) encryption: Encryption,
    pub(super) root_certificate: Option<RootCertificate>,
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

/// The `sslrootcert`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RootCertificate {
    /// `system`: the authorities of the operating system.
    System,
    File(PathBuf),
}

impl Settings {
    /// Reads a connection string. `attempt` is the time limit of a call.
    ///
    /// # Errors
    ///
    /// A message that contains no part of the password.
    pub(super) fn parse(text: &str, attempt: Duration) -> Result<Self, String> {
        let Parts {
            hosts,
            others: mut config,
            own,
        } = Parts::of(text)?;
        // These only end what is left of a connection in the kernel.
        config.tcp_user_timeout(attempt * 2);
        config.keepalives_retries(3);
        let (mut encryption, mut root_certificate) = (None, None);
        let (mut certificate, mut key_file) = (None, None);
        for (key, value) in &own {
            let (key, value) = (key.as_str(), value.as_str());
            match key {
                "tcp_user_timeout" => {
                    config.tcp_user_timeout(Duration::from_millis(number(key, value)?.into()));
                }
                "keepalives_count" => drop(config.keepalives_retries(number(key, value)?)),
                "sslmode" => encryption = Some(encryption_of(value)?),
                "sslrootcert" if value == "system" => {
                    root_certificate = Some(RootCertificate::System);
                }
                "sslrootcert" => root_certificate = Some(RootCertificate::File(path(key, value)?)),
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
                _ => {
                    return Err(format!(
                        "{key} is not supported: write the settings into the connection string, \
                         and keep it in the file that url_file names"
                    ));
                }
            }
        }
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
            None if is_local(&hosts) => Encryption::None,
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
            servers: servers(&hosts, &config)?,
            user,
            encryption,
            root_certificate,
            client_certificate,
        })
    }
}

/// Returns a configuration for each of these hosts.
fn servers(of: &Config, config: &Config) -> Result<Vec<Server>, String> {
    let (hosts, addresses, ports) = (of.get_hosts(), of.get_hostaddrs(), of.get_ports());
    let count = hosts.len().max(addresses.len());
    if count == 0 || hosts.contains(&Host::Tcp(String::new())) {
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
        let name = match (hosts.get(index), addresses.get(index)) {
            (Some(Host::Tcp(name)), _) => name.clone(),
            #[cfg(unix)]
            (Some(Host::Unix(folder)), _) => folder.display().to_string(),
            (None, address) => address.map(ToString::to_string).unwrap_or_default(),
        };
        if index < hosts.len() {
            config.host(&name);
        }
        if let Some(address) = addresses.get(index) {
            config.hostaddr(*address);
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
fn is_local(config: &Config) -> bool {
    let is_local_host = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    match config.get_hostaddrs() {
        [] => config.get_hosts().iter().all(is_local_host),
        addresses => addresses.iter().all(IpAddr::is_loopback),
    }
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
        Settings::parse(text, Duration::from_millis(500))
    }

    fn names(settings: &Settings) -> Vec<&str> {
        let names = settings.servers.iter();
        names.map(|server| server.name.as_str()).collect()
    }

    #[test]
    fn both_forms_of_a_connection_string_mean_the_same() {
        let words = parse(
            "host=a,b port = 5433,5434 user=me password='p@ ss\\'w' dbname=d sslmode=verify-full",
        );
        let url = parse("postgresql://me:p%40%20ss'w@a:5433,b:5434/d?sslmode=verify-full");
        for settings in [words.unwrap(), url.unwrap()] {
            assert_eq!(names(&settings), ["a:5433", "b:5434"]);
            assert_eq!(settings.encryption, Encryption::Full);
            assert_eq!(settings.user, "me");
            let config = &settings.servers[1].config;
            assert_eq!(config.get_password(), Some(&b"p@ ss'w"[..]));
            assert_eq!(config.get_dbname(), Some("d"));
            assert_eq!(config.get_ssl_mode(), SslMode::Require);
        }
    }

    #[test]
    fn one_port_is_for_all_hosts_and_an_ipv6_address_is_in_brackets() {
        let settings = parse("host=a,b port=6000 user=u sslmode=disable").unwrap();
        assert_eq!(names(&settings), ["a:6000", "b:6000"]);
        let settings = parse("postgres://u@[::1]:6000,[::1]/d").unwrap();
        assert_eq!(names(&settings), ["::1:6000", "::1:5432"]);
        assert!(parse("host=a,b,c port=1,2 user=u sslmode=disable").is_err());
    }

    #[test]
    fn the_user_timeout_is_in_milliseconds_as_in_libpq() {
        let settings = parse("host=::1 user=u tcp_user_timeout=700").unwrap();
        let timeout = settings.servers[0].config.get_tcp_user_timeout();
        assert_eq!(timeout, Some(&Duration::from_millis(700)));
    }

    #[test]
    fn a_remote_server_needs_an_sslmode_and_a_local_one_does_not() {
        let error = parse("host=127.0.0.1,db.example user=u").unwrap_err();
        assert!(error.contains("sslmode is missing"), "{error}");
        let local = parse("host=127.0.0.1,/run/postgresql user=u").unwrap();
        assert_eq!(local.encryption, Encryption::None);
        for mode in ["prefer", "allow"] {
            let error = parse(&format!("host=a user=u sslmode={mode}")).unwrap_err();
            assert!(error.contains("is not supported"), "{error}");
        }
        for (mode, encryption) in [
            ("require", Encryption::Unverified),
            ("verify-ca", Encryption::Authority),
        ] {
            let settings = parse(&format!("host=a user=u sslmode={mode}")).unwrap();
            assert_eq!(settings.encryption, encryption);
        }
    }

    #[test]
    fn no_error_contains_a_part_of_the_password() {
        for text in [
            "host=a user=u password=my secret=word sslmode=disable",
            "host=a user=u password='secret",
            "postgresql://u:secret@a:b:c/d",
            "postgresql://u:se/secret@a/d?sslmode=disable",
            "secret",
            "host=a user=u password=secret sslmode=secret",
            "host=a user=u password=a port=secret",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.contains("secret"), "{text}: {error}");
        }
        let settings = parse("host=::1 user=u password=secret").unwrap();
        assert!(!format!("{settings:?}").contains("secret"));
    }

    #[test]
    fn a_certificate_file_is_a_path() {
        for key in ["sslrootcert", "sslcert", "sslkey"] {
            let error = parse(&format!("host=a user=u sslmode=verify-full {key}=~/a.pem"));
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
            for text in [
                format!("host=::1 user=u {option}"),
                format!("postgresql://u@[::1]/d?{option}"),
            ] {
                let error = parse(&text).unwrap_err();
                let key = option.split('=').next().unwrap();
                assert_eq!(
                    error,
                    format!("the value of {key} is not valid: use {right}")
                );
            }
        }
        let error = parse("host=a user=u password=my word=1").unwrap_err();
        assert!(error.contains("option 4 is not known"), "{error}");
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
        let settings = parse("host=::1 user=u keepalives_interval=7").unwrap();
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
        for option in ["target_session_attrs=standby", "service=a", "passfile=a"] {
            assert!(parse(&format!("host=::1 user=u {option}")).is_err());
        }
        assert!(parse("host=::1 user=u target_session_attrs=primary").is_ok());
    }
}

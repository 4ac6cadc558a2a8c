//! The settings in a connection string, with the meaning that they have in libpq.
//!
//! They are not read by the driver: the driver does not know `verify-full`, counts
//! `tcp_user_timeout` in seconds, and its errors can contain a part of a password.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tenure_core::file_path;
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, Host, SslMode, SslNegotiation, TargetSessionAttrs};

use super::connection_string::{EXAMPLE, pairs};

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

/// The keys that [`Draft::set`] knows, for messages.
const KNOWN: &str = "host, hostaddr, port, dbname, user, password, sslmode, sslrootcert, sslcert, \
    sslkey, sslnegotiation, channel_binding, application_name, options, connect_timeout, \
    tcp_user_timeout, keepalives, keepalives_idle, keepalives_interval, keepalives_count, \
    target_session_attrs";

#[derive(Default)]
struct Draft {
    config: Config,
    hosts: Vec<String>,
    addresses: Vec<IpAddr>,
    ports: Vec<u16>,
    user: Option<String>,
    encryption: Option<Encryption>,
    root_certificate: Option<RootCertificate>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Settings {
    /// Reads a connection string. `attempt` is the time limit of a call.
    ///
    /// # Errors
    ///
    /// A message that contains no part of the password.
    pub(super) fn parse(text: &str, attempt: Duration) -> Result<Self, String> {
        let mut draft = Draft::default();
        draft.config.application_name("tenure");
        // A connection is given up after an attempt. These times only end what is left of it in
        // the kernel, and find a peer that is gone while the connection is idle.
        draft.config.tcp_user_timeout(attempt * 2);
        draft.config.keepalives_idle(Duration::from_secs(5));
        draft.config.keepalives_interval(Duration::from_secs(2));
        draft.config.keepalives_retries(3);
        for (position, (key, value)) in pairs(text)?.into_iter().enumerate() {
            draft.set(position + 1, &key, &value)?;
        }
        draft.finish()
    }
}

impl Draft {
    fn set(&mut self, position: usize, key: &str, value: &str) -> Result<(), String> {
        let config = &mut self.config;
        let list = || value.split(',').filter(|one| !one.is_empty());
        let seconds = || Ok::<_, String>(Duration::from_secs(number(key, value)?));
        match key {
            "host" => self.hosts = list().map(str::to_owned).collect(),
            "hostaddr" => {
                let addresses: Result<_, _> = list().map(str::parse).collect();
                self.addresses = addresses.map_err(|_| invalid(key, "IP addresses"))?;
            }
            "port" => {
                let ports = value.split(',').map(|one| match one {
                    "" => Ok(5432),
                    one => one.parse(),
                });
                let ports: Result<_, _> = ports.collect();
                self.ports = ports.map_err(|_| invalid(key, "port numbers"))?;
            }
            "user" => self.user = Some(value.to_owned()),
            "password" => drop(config.password(value)),
            "dbname" => drop(config.dbname(value)),
            "options" => drop(config.options(value)),
            "application_name" => drop(config.application_name(value)),
            "connect_timeout" => drop(config.connect_timeout(seconds()?)),
            "tcp_user_timeout" => {
                config.tcp_user_timeout(Duration::from_millis(number(key, value)?));
            }
            "keepalives" => drop(config.keepalives(number(key, value)? != 0)),
            "keepalives_idle" => drop(config.keepalives_idle(seconds()?)),
            "keepalives_interval" => drop(config.keepalives_interval(seconds()?)),
            "keepalives_count" => {
                let count = number(key, value)?.try_into();
                config.keepalives_retries(count.map_err(|_| invalid(key, "a number"))?);
            }
            "channel_binding" => drop(config.channel_binding(match value {
                "disable" => ChannelBinding::Disable,
                "prefer" => ChannelBinding::Prefer,
                "require" => ChannelBinding::Require,
                _ => return Err(invalid(key, "disable, prefer or require")),
            })),
            "sslnegotiation" => drop(config.ssl_negotiation(match value {
                "postgres" => SslNegotiation::Postgres,
                "direct" => SslNegotiation::Direct,
                _ => return Err(invalid(key, "postgres or direct")),
            })),
            "sslmode" => self.encryption = Some(encryption(value)?),
            "sslrootcert" => {
                self.root_certificate = Some(match value {
                    "system" => RootCertificate::System,
                    _ => RootCertificate::File(path(key, value)?),
                });
            }
            "sslcert" => self.certificate = Some(path(key, value)?),
            "sslkey" => self.key = Some(path(key, value)?),
            // Each new connection asks the server whether it accepts writes.
            "target_session_attrs" if ["any", "primary", "read-write"].contains(&value) => {}
            "target_session_attrs" => {
                return Err(invalid(key, "read-write: the log is written"));
            }
            "gssencmode" if ["disable", "prefer"].contains(&value) => {}
            "load_balance_hosts" if value == "disable" => {}
            "gssencmode" | "load_balance_hosts" => return Err(invalid(key, "disable")),
            "passfile" | "service" => {
                return Err(format!(
                    "{key} is not supported: write the settings into the connection string, and \
                     keep it in the file that url_file names"
                ));
            }
            // Without quotes, a part of a password may look like a key.
            _ => {
                return Err(format!(
                    "option {position} is not known: known are {KNOWN}; quote a password with \
                     spaces ('...')"
                ));
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Settings, String> {
        let (hosts, addresses, ports) = (self.hosts, self.addresses, self.ports);
        let count = hosts.len().max(addresses.len());
        if count == 0 {
            return Err(format!("host is missing; {EXAMPLE}"));
        }
        let user = self
            .user
            .ok_or_else(|| format!("user is missing; {EXAMPLE}"))?;
        if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
            return Err("host and hostaddr must have the same number of values".into());
        }
        if ports.len() > 1 && ports.len() != count {
            return Err(format!(
                "port has {} values, and there are {count} hosts: give one port, or one for each",
                ports.len()
            ));
        }
        let client_certificate = match (self.certificate, self.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => return Err("sslcert and sslkey must be set together".into()),
        };
        let mut servers = Vec::new();
        for index in 0..count {
            let mut config = self.config.clone();
            config.user(&user);
            // Whether the server accepts writes is asked together with its other properties.
            config.target_session_attrs(TargetSessionAttrs::Any);
            let port = ports.get(index).or_else(|| ports.first());
            let port = port.copied().unwrap_or(5432);
            config.port(port);
            let mut name = String::new();
            if let Some(host) = hosts.get(index) {
                config.host(host);
                name.clone_from(host);
            }
            if let Some(address) = addresses.get(index) {
                config.hostaddr(*address);
                if name.is_empty() {
                    name = address.to_string();
                }
            }
            servers.push(Server {
                name: format!("{name}:{port}"),
                config,
            });
        }
        let encryption = match self.encryption {
            Some(encryption) => encryption,
            None if servers.iter().all(|server| is_local(&server.config)) => Encryption::None,
            None => {
                return Err(
                    "sslmode is missing: use sslmode=verify-full (TLS, and the certificate must \
                     be valid for the host), or sslmode=disable in a network that you trust"
                        .into(),
                );
            }
        };
        for server in &mut servers {
            server.config.ssl_mode(match encryption {
                Encryption::None => SslMode::Disable,
                _ => SslMode::Require,
            });
        }
        Ok(Settings {
            servers,
            user,
            encryption,
            root_certificate: self.root_certificate,
            client_certificate,
        })
    }
}

fn encryption(value: &str) -> Result<Encryption, String> {
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

/// Whether the server is on this machine.
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

fn number(key: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| invalid(key, "a whole number"))
}

fn invalid(key: &str, right: &str) -> String {
    format!("the value of {key} is not valid: use {right}")
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
    fn a_standby_or_a_service_file_cannot_be_asked_for() {
        for option in ["target_session_attrs=standby", "service=a", "passfile=a"] {
            assert!(parse(&format!("host=::1 user=u {option}")).is_err());
        }
        assert!(parse("host=::1 user=u target_session_attrs=primary").is_ok());
    }
}

//! A connection string in the form of a URL, with the variables `PG*` for what it lacks, as in libpq.
//!
//! The driver reads most of it. It does not know all keys of libpq, gives some another meaning, and
//! connects to all hosts with one configuration, so the string is divided before.

use std::error::Error as _;

use tokio_postgres::Config;

use crate::HomeUrl;

/// A right connection string, for messages.
pub(super) const EXAMPLE: &str = "write `postgres://tenure@a,b/tenure?sslmode=verify-full`, with \
    special characters percent-encoded";

/// All keys, for messages.
const KNOWN: &str = "host, hostaddr, port, dbname, user, password, passfile, sslmode, sslrootcert, \
    sslcert, sslkey, sslnegotiation, channel_binding, application_name, options, connect_timeout, \
    tcp_user_timeout, keepalives, keepalives_idle, keepalives_interval, keepalives_count, \
    target_session_attrs, schema, failover";

/// The keys that the driver does not know or reads in another way.
const OWN: &str = "passfile, sslmode, sslrootcert, sslcert, sslkey, tcp_user_timeout, \
    keepalives_count, target_session_attrs, gssencmode, load_balance_hosts, service";

/// The keys that are not about the connection.
const OTHERS: &str = "schema, failover";

/// Settings that a string may replace. A connection is given up after an attempt, so the times only
/// find a peer that is gone while the connection is idle.
const DEFAULTS: &[(&str, &str)] = &[
    ("application_name", "tenure"),
    ("keepalives_idle", "5"),
    ("keepalives_interval", "2"),
];

/// A connection string in parts.
#[derive(Debug)]
pub(super) struct Parts {
    /// The hosts with their addresses and ports, and nothing else.
    pub(super) hosts: Config,
    /// The other settings that the driver reads.
    pub(super) others: Config,
    /// The keys and values that it does not read.
    pub(super) own: Vec<(String, String)>,
}

impl Parts {
    /// Reads a string. `variable` returns the value of a variable of the environment.
    ///
    /// # Errors
    ///
    /// A message that contains no part of the password.
    pub(super) fn of(
        text: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let url = HomeUrl::parse(text.trim()).map_err(wrong_form)?;
        if !["postgres", "postgresql"].contains(&&*url.scheme) {
            return Err(wrong_form("it is not a URL of PostgreSQL"));
        }
        let mut settings: Vec<(String, String)> = Vec::new();
        let mut set = |key: &str, value: String| {
            settings.retain(|(known, _)| known != key);
            settings.push((key.to_owned(), value));
        };
        if !url.hosts.is_empty() {
            let names = url
                .hosts
                .iter()
                .map(|(name, _)| name.trim_matches(['[', ']']));
            set("host", names.collect::<Vec<_>>().join(","));
        }
        if url.hosts.iter().any(|(_, port)| port.is_some()) {
            let ports = url.hosts.iter().map(|(_, port)| port.as_deref());
            let ports = ports.map(|port| port.unwrap_or("5432"));
            set("port", ports.collect::<Vec<_>>().join(","));
        }
        let path = Some(url.path).filter(|path| !path.is_empty());
        let of_front = [
            ("user", url.user),
            ("password", url.password),
            ("dbname", path),
        ];
        for (key, value) in of_front {
            value.into_iter().for_each(|value| set(key, value));
        }
        let is_in = |keys: &str, key: &str| keys.split(", ").any(|one| one == key);
        for (index, (key, value)) in url.parameters.into_iter().enumerate() {
            match &*key {
                // A part of a password may look like a key.
                _ if !is_in(KNOWN, &key) && !is_in(OWN, &key) => {
                    let number = index + 1;
                    return Err(format!(
                        "parameter {number} is not known: known are {KNOWN}"
                    ));
                }
                _ if is_in(OTHERS, &key) => {}
                key => set(key, value),
            }
        }
        let keys = KNOWN.split(", ").chain(OWN.split(", "));
        let of_environment = keys.filter_map(|key| {
            let value = variable(&variable_of(key)).filter(|value| !value.is_empty());
            Some((key, value?))
        });
        let defaults = DEFAULTS.iter().map(|&(key, value)| (key, value.to_owned()));
        for (key, value) in of_environment.chain(defaults) {
            if settings.iter().all(|(known, _)| known != key) {
                settings.push((key.to_owned(), value));
            }
        }
        let (own, words): (Vec<_>, Vec<_>) =
            settings.into_iter().partition(|(key, _)| is_in(OWN, key));
        let (hosts, others): (Vec<_>, Vec<_>) = words
            .into_iter()
            .partition(|(key, _)| is_in("host, hostaddr, port", key));
        Ok(Self {
            hosts: read(&hosts)?,
            others: read(&others)?,
            own,
        })
    }
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

fn wrong_form(reason: &str) -> String {
    format!("{reason}; {EXAMPLE}")
}

pub(super) fn invalid(key: &str, right: &str) -> String {
    format!("the value of {key} is not valid: use {right}")
}

fn read(settings: &[(String, String)]) -> Result<Config, String> {
    let words = settings.iter().map(|(key, value)| {
        let value = value.replace('\\', "\\\\").replace('\'', "\\'");
        format!("{key}='{value}'")
    });
    let words = words.collect::<Vec<_>>().join(" ");
    words.parse().map_err(|error: tokio_postgres::Error| {
        // The driver names the key between backticks, and no value.
        let reason = error.source().map(ToString::to_string).unwrap_or_default();
        match reason.split('`').nth(1) {
            None => wrong_form("it can't be read"),
            Some(key @ "hostaddr") => invalid(key, "IP addresses"),
            Some(key @ "port") => invalid(key, "port numbers"),
            Some(key @ "channel_binding") => invalid(key, "disable, prefer or require"),
            Some(key @ "sslnegotiation") => invalid(key, "postgres or direct"),
            Some(key) => invalid(key, "a whole number"),
        }
    })
}

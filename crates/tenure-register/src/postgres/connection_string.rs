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

/// Keys of libpq that are known and have one value, or none.
const FIXED: &str = "gssencmode, load_balance_hosts, service";

/// The keys that are not about the connection.
const OTHERS: &[&str] = &["schema", "failover"];

/// Settings that a string may replace. A connection is given up after an attempt, so the times only
/// find a peer that is gone while the connection is idle.
const DEFAULTS: &[(&str, &str)] = &[
    ("application_name", "tenure"),
    ("keepalives_idle", "5"),
    ("keepalives_interval", "2"),
];

/// Returns the keys and values of a string. `variable` returns the value of a variable of the
/// environment.
///
/// # Errors
///
/// A message that contains no part of the password.
pub(super) fn settings_of(
    text: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>, String> {
    let url = HomeUrl::parse(text.trim()).map_err(wrong_form)?;
    if !["postgres", "postgresql"].contains(&&*url.scheme) {
        return Err(wrong_form("it is not a URL of PostgreSQL"));
    }
    let ports = url
        .hosts
        .iter()
        .map(|(_, port)| port.unwrap_or(5432).to_string());
    let ports: Vec<_> = ports.collect();
    let has_port = url.hosts.iter().any(|(_, port)| port.is_some());
    let hosts = url
        .hosts
        .iter()
        .map(|(host, _)| host.trim_matches(['[', ']']));
    let hosts: Vec<_> = hosts.collect();
    let mut settings: Vec<(String, String)> = Vec::new();
    let mut set = |key: &str, value: String| {
        settings.retain(|(known, _)| known != key);
        settings.push((key.to_owned(), value));
    };
    for (key, value) in [
        ("host", (!hosts.is_empty()).then(|| hosts.join(","))),
        ("port", has_port.then(|| ports.join(","))),
        ("user", url.user),
        ("password", url.password),
        ("dbname", Some(url.path).filter(|path| !path.is_empty())),
    ] {
        value.into_iter().for_each(|value| set(key, value));
    }
    let known = || KNOWN.split(", ").chain(FIXED.split(", "));
    for (index, (key, value)) in url.parameters.into_iter().enumerate() {
        // A part of a password may look like a key.
        if known().all(|known| known != key) {
            let number = index + 1;
            return Err(format!(
                "parameter {number} is not known: known are {KNOWN}"
            ));
        }
        set(&key, value);
    }
    let of_environment = known().filter_map(|key| Some((key, variable(&variable_of(key))?)));
    let defaults = DEFAULTS.iter().map(|&(key, value)| (key, value.to_owned()));
    for (key, value) in of_environment.chain(defaults) {
        if !value.is_empty() && settings.iter().all(|(known, _)| known != key) {
            settings.push((key.to_owned(), value));
        }
    }
    settings.retain(|(key, _)| !OTHERS.contains(&&**key));
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

fn wrong_form(reason: &str) -> String {
    format!("{reason}; {EXAMPLE}")
}

pub(super) fn invalid(key: &str, right: &str) -> String {
    format!("the value of {key} is not valid: use {right}")
}

/// Returns the configuration of the driver with these keys and values.
pub(super) fn config(settings: &[(&str, &str)]) -> Result<Config, String> {
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
            Some(key @ "channel_binding") => invalid(key, "disable, prefer or require"),
            Some(key @ "sslnegotiation") => invalid(key, "postgres or direct"),
            Some(key) => invalid(key, "a whole number"),
        }
    })
}

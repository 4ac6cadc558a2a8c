//! The two forms of a connection string: `key=value` words, and a URL.
//!
//! The driver reads most of it. It does not know all keys of libpq, gives some another meaning, and
//! connects to all hosts with one configuration, so the string is divided before.

use std::error::Error as _;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;

/// A right connection string, for messages.
pub(super) const EXAMPLE: &str = "write `host=a,b dbname=tenure user=tenure password=... \
    sslmode=verify-full` or `postgresql://tenure:...@a,b/tenure?sslmode=verify-full`, with special \
    characters of a password percent-encoded in a URL and quoted otherwise";

/// All keys, for messages.
const KNOWN: &str = "host, hostaddr, port, dbname, user, password, sslmode, sslrootcert, sslcert, \
    sslkey, sslnegotiation, channel_binding, application_name, options, connect_timeout, \
    tcp_user_timeout, keepalives, keepalives_idle, keepalives_interval, keepalives_count, \
    target_session_attrs";

/// The keys that the driver does not know or reads in another way.
const OWN: &str = "sslmode, sslrootcert, sslcert, sslkey, tcp_user_timeout, keepalives_count, \
    target_session_attrs, gssencmode, load_balance_hosts, passfile, service";

/// Settings that a string may replace: the driver uses the last value of a key. A connection is given
/// up after an attempt, so the times only find a peer that is gone while the connection is idle.
const DEFAULTS: &[&str] = &[
    "application_name=tenure",
    "keepalives_idle=5",
    "keepalives_interval=2",
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
    /// Reads a string in either form.
    ///
    /// # Errors
    ///
    /// A message that contains no part of the password.
    pub(super) fn of(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let url = text.strip_prefix("postgresql://");
        let url = url.or_else(|| text.strip_prefix("postgres://"));
        let url = url.map(|url| url.split_once('?').unwrap_or((url, "")));
        let settings = match url {
            Some((_, query)) => settings_of_query(query),
            None => settings_of_words(text),
        };
        let (mut hosts, mut others, mut own) = (Vec::new(), DEFAULTS.to_vec(), Vec::new());
        for (index, (text, key, value)) in settings.ok_or_else(wrong_form)?.into_iter().enumerate()
        {
            let is_in = |keys: &str| keys.split(", ").any(|one| one == key);
            match key.as_str() {
                "host" | "hostaddr" | "port" => hosts.push(text),
                _ if is_in(OWN) => own.push((key, value)),
                _ if is_in(KNOWN) => others.push(text),
                // Without quotes, a part of a password may look like a key.
                _ => {
                    return Err(format!(
                        "option {} is not known: known are {KNOWN}; quote a password with spaces \
                         ('...')",
                        index + 1
                    ));
                }
            }
        }
        let [hosts, others] = match url {
            None => [hosts, others].map(|words| words.join(" ")),
            Some((front, _)) => {
                let (server, database) = front.split_once('/').unwrap_or((front, ""));
                let (user, servers) = server.rsplit_once('@').unwrap_or(("", server));
                // For the driver the first `@` ends the user.
                let encoded = |part: &str| part.replace('@', "%40");
                let [hosts, others] = [hosts, others].map(|query| encoded(&query.join("&")));
                let (user, database) = (encoded(user), encoded(database));
                [
                    format!("postgresql://{servers}?{hosts}"),
                    format!("postgresql://{user}@/{database}?{others}"),
                ]
            }
        };
        Ok(Self {
            hosts: read(&hosts)?,
            others: read(&others)?,
            own,
        })
    }
}

fn wrong_form() -> String {
    format!("it is not a connection string; {EXAMPLE}")
}

pub(super) fn invalid(key: &str, right: &str) -> String {
    format!("the value of {key} is not valid: use {right}")
}

fn read(text: &str) -> Result<Config, String> {
    text.parse().map_err(|error: tokio_postgres::Error| {
        // The driver names the key between backticks, and no value.
        let reason = error.source().map(ToString::to_string).unwrap_or_default();
        match reason.split('`').nth(1) {
            None => wrong_form(),
            Some(key @ "hostaddr") => invalid(key, "IP addresses"),
            Some(key @ "port") => invalid(key, "port numbers"),
            Some(key @ "channel_binding") => invalid(key, "disable, prefer or require"),
            Some(key @ "sslnegotiation") => invalid(key, "postgres or direct"),
            Some(key) => invalid(key, "a whole number"),
        }
    })
}

/// A setting: its own text, its key and its value.
type Setting<'a> = (&'a str, String, String);

/// Reads `key=value&key=value`.
fn settings_of_query(query: &str) -> Option<Vec<Setting<'_>>> {
    let decoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8().ok()?;
        Some(text.into_owned())
    };
    let options = query.split('&').filter(|option| !option.is_empty());
    let settings = options.map(|text| {
        let (key, value) = text.split_once('=')?;
        Some((text, decoded(key)?, decoded(value)?))
    });
    settings.collect()
}

/// Reads `key=value key='value with spaces'`. A backslash escapes the next character.
fn settings_of_words(text: &str) -> Option<Vec<Setting<'_>>> {
    let mut settings = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (quoted, mut characters) = match after.strip_prefix('\'') {
            Some(after) => (true, after.chars()),
            None => (false, after.chars()),
        };
        let (mut value, mut is_closed) = (String::new(), !quoted);
        while let Some(next) = characters.next() {
            match next {
                '\\' => value.push(characters.next()?),
                '\'' if quoted => {
                    is_closed = true;
                    break;
                }
                next if !quoted && next.is_whitespace() => break,
                next => value.push(next),
            }
        }
        if !is_closed {
            return None;
        }
        let (text, left) = rest.split_at(rest.len() - characters.as_str().len());
        settings.push((text, key.trim().to_owned(), value));
        rest = left.trim_start();
    }
    Some(settings)
}

//! The two forms of a connection string: `key=value` words, and a URL.

use percent_encoding::percent_decode_str;

/// A right connection string, for messages.
pub(super) const EXAMPLE: &str = "write `host=a,b dbname=tenure user=tenure password=... \
    sslmode=verify-full` or `postgresql://tenure:...@a,b/tenure?sslmode=verify-full`, with special \
    characters of a password percent-encoded in a URL and quoted otherwise";

/// Returns the keys and values of a string in either form.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let text = text.trim();
    let url = text.strip_prefix("postgresql://");
    match url.or_else(|| text.strip_prefix("postgres://")) {
        Some(url) => pairs_of_url(url),
        None => pairs_of_words(text),
    }
    .ok_or_else(|| format!("it is not a connection string; {EXAMPLE}"))
}

/// Reads `user:password@host:port,host:port/dbname?key=value&key=value`.
fn pairs_of_url(url: &str) -> Option<Vec<(String, String)>> {
    let decoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8().ok()?;
        Some(text.into_owned())
    };
    let mut pairs = Vec::new();
    let mut push = |key: &str, value: &str| -> Option<()> {
        pairs.push((key.to_owned(), decoded(value)?));
        Some(())
    };
    let (front, options) = url.split_once('?').unwrap_or((url, ""));
    let (server, database) = front.split_once('/').unwrap_or((front, ""));
    let (user, hosts) = match server.rsplit_once('@') {
        Some((user, hosts)) => (Some(user), hosts),
        None => (None, server),
    };
    if let Some(user) = user {
        let (user, password) = match user.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (user, None),
        };
        push("user", user)?;
        if let Some(password) = password {
            push("password", password)?;
        }
    }
    if !hosts.is_empty() {
        let (mut names, mut ports) = (Vec::new(), Vec::new());
        for host in hosts.split(',') {
            // An IPv6 address is in brackets.
            let (name, port) = match host.strip_prefix('[') {
                Some(rest) => {
                    let (name, rest) = rest.split_once(']')?;
                    (name, rest.strip_prefix(':').unwrap_or_default())
                }
                None => host.split_once(':').unwrap_or((host, "")),
            };
            names.push(name);
            ports.push(port);
        }
        push("host", &names.join(","))?;
        push("port", &ports.join(","))?;
    }
    if !database.is_empty() {
        push("dbname", database)?;
    }
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=')?;
        push(&decoded(key)?, value)?;
    }
    Some(pairs)
}

/// Reads `key=value key='value with spaces'`. A backslash escapes the next character.
fn pairs_of_words(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
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
        pairs.push((key.trim().to_owned(), value));
        rest = characters.as_str().trim_start();
    }
    Some(pairs)
}

//! The URL of a home: `scheme://user:password@host:port,host:port/path?key=value&key=value`.

use std::collections::BTreeSet;
use std::fmt;

use percent_encoding::percent_decode_str;

/// The parts of a URL of a home, decoded. It may have several hosts.
#[derive(PartialEq, Eq)]
pub struct HomeUrl {
    /// The part before `://`.
    pub scheme: String,
    /// The user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// The hosts, each with its port; `None` if it has none. IPv6 addresses are in brackets.
    pub hosts: Vec<(String, Option<u16>)>,
    /// The part behind the first `/` after the hosts.
    pub path: String,
    /// The keys and values behind the `?`.
    pub parameters: Vec<(String, String)>,
}

impl HomeUrl {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// What is wrong with it. The message contains no part of it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or("it is not a URL")?;
        if text.contains(char::is_whitespace) {
            return Err("it contains a blank, which is %20 in a URL");
        }
        let (front, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = front.split_once('/').unwrap_or((front, ""));
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match user.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (user, None),
        };
        let is_given = !hosts.is_empty();
        let hosts = hosts.split(',').filter(|_| is_given);
        let hosts = hosts.map(|host| match host.rsplit_once(':') {
            None if host.is_empty() => Err("a host of the list is empty"),
            Some(("", _)) => Err("a port has no host"),
            Some((name, port)) if !port.ends_with(']') => {
                let port = port.parse().map_err(|_| "a port is not a number")?;
                Ok((decoded(name)?, Some(port)))
            }
            _ => Ok((decoded(host)?, None)),
        });
        let hosts = hosts.collect::<Result<_, &str>>()?;
        let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
        let parameters = parameters.map(|parameter| {
            let (key, value) = parameter.split_once('=').ok_or("a parameter has no =")?;
            Ok((decoded(key)?, decoded(value)?))
        });
        let parameters = parameters.collect::<Result<Vec<(String, String)>, &str>>()?;
        let mut keys = BTreeSet::new();
        if !parameters.iter().all(|(key, _)| keys.insert(key)) {
            return Err("a parameter is there twice");
        }
        Ok(Self {
            scheme: scheme.to_owned(),
            user: Some(decoded(user)?).filter(|user| !user.is_empty()),
            password: password.map(decoded).transpose()?,
            hosts,
            path: decoded(path)?,
            parameters,
        })
    }

    /// Returns whether it has a password, in front of the hosts or as a parameter, or a parameter
    /// that is itself a URL with a user or a query.
    #[must_use]
    pub fn has_password(&self) -> bool {
        let is_secret = |(key, value): &(String, String)| {
            let key = key.to_lowercase();
            let is_url = key == "endpoint" || value.contains("://");
            key.ends_with("password") || (is_url && value.contains(['@', '?', '#']))
        };
        self.password.is_some() || self.parameters.iter().any(is_secret)
    }
}

/// Omits what may have a password.
impl fmt::Debug for HomeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HomeUrl({} at {:?})", self.scheme, self.hosts)
    }
}

fn decoded(text: &str) -> Result<String, &'static str> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(String::from).map_err(|_| "it is not UTF-8")
}

//! Where a store is.

use std::fmt;

use reqwest::Url;

/// What stands where a password was.
const HIDDEN: &str = "***";

/// An address of a store. A password in it is sent to whoever answers there, as basic authentication, and
/// shown nowhere: not by `Display`, not by `Debug`.
///
/// # Examples
///
/// ```
/// use tenure::store::Endpoint;
///
/// let url: reqwest::Url = "https://worker:secret@store.example.com".parse()?;
/// let endpoint = Endpoint::from(url);
/// assert_eq!(endpoint.to_string(), "https://worker:***@store.example.com/");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(Url);

impl Endpoint {
    /// The address with its password, if it has one: to be asked, and not to be shown.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.0
    }

    /// A text that is or was meant as addresses, without what may be a password in it; rather too much is left
    /// out than too little.
    pub(crate) fn shown(text: &str) -> String {
        let Some((before, host)) = text.rsplit_once('@') else {
            return text.to_owned();
        };
        let user = before.find("://").map_or(0, |at| at + "://".len());
        match before[user..].split_once(':') {
            Some((name, _)) => format!("{}{name}:{HIDDEN}@{host}", &before[..user]),
            None => text.to_owned(),
        }
    }
}

impl From<Url> for Endpoint {
    fn from(url: Url) -> Self {
        Self(url)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.clone();
        if shown.password().is_some() {
            // What has a password can have another one.
            let _ = shown.set_password(Some(HIDDEN));
        }
        f.write_str(shown.as_str())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown_whatever_became_of_the_address() {
        for (text, shown) in [
            ("http://host:7400", "http://host:7400"),
            ("http://host/a@b:c", "http://host/a@b:c"),
            ("http://user@host", "http://user@host"),
            ("http://user:secret@host", "http://user:***@host"),
            ("http://:secret@host/way", "http://:***@host/way"),
            ("http://user:se@cret@host", "http://user:***@host"),
            ("ftp://user:secret@host", "ftp://user:***@host"),
            ("http://user:secret@ho st", "http://user:***@ho st"),
            ("user:se/cret@host", "user:***@host"),
            ("http://user@ho st", "http://user@ho st"),
            ("1@5=http://host", "1@5=http://host"),
            ("1@5=http://user:secret@host", "1@5=http://user:***@host"),
            ("http://a,http://b:secret@c", "http://a,http:***@c"),
            ("http://a:one@b,http://c:two@d", "http://a:***@d"),
            ("no address", "no address"),
        ] {
            assert_eq!(Endpoint::shown(text), shown, "{text}");
        }
    }

    #[test]
    fn an_endpoint_is_asked_with_its_password() {
        let url: Url = "http://user:secret@host".parse().unwrap();
        let endpoint = Endpoint::from(url.clone());
        assert_eq!(endpoint.url(), &url);
        assert_eq!(format!("{endpoint:?}"), "\"http://user:***@host/\"");
    }
}

//! The address of a store.

use std::fmt;
use std::str::FromStr;

use reqwest::Url;

/// The text that replaces a password.
const HIDDEN: &str = "***";

/// An http or https address of a store. A password in the address is sent as basic authentication.
/// Neither `Display` nor `Debug` shows it.
///
/// # Examples
///
/// ```
/// use tenure::store::Endpoint;
///
/// let endpoint: Endpoint = "https://worker:secret@store.example.com".parse()?;
/// assert_eq!(endpoint.to_string(), "https://worker:***@store.example.com/");
/// # Ok::<(), tenure::store::EndpointError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(Url);

/// The error for a text that is not an http or https address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; write it like http://127.0.0.1:7400")]
pub struct EndpointError(String);

impl Endpoint {
    /// Returns the address with its password.
    pub(crate) const fn url(&self) -> &Url {
        &self.0
    }

    /// Returns the address for a browser: without user and password, and with this fragment, which
    /// browsers do not send.
    #[must_use]
    pub fn page(&self, fragment: Option<&str>) -> String {
        let mut url = self.0.clone();
        // An http address also accepts no user and no password.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        if !url.path().ends_with('/') {
            let path = format!("{}/", url.path());
            url.set_path(&path);
        }
        url.set_fragment(fragment);
        url.into()
    }

    /// Returns whether this URL names the same server: user and password don't count.
    pub(super) fn is_at(&self, url: &str) -> bool {
        let Ok(url) = Url::parse(url) else {
            return false;
        };
        let place = |url: &Url| {
            let host = url.host_str().map(str::to_owned);
            let path = url.path().trim_end_matches('/').to_owned();
            (
                url.scheme().to_owned(),
                host,
                url.port_or_known_default(),
                path,
            )
        };
        place(&self.0) == place(&url)
    }

    /// Returns a text without passwords. The text may contain valid or invalid addresses. In case
    /// of doubt, more is hidden than necessary.
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

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let shown = || Self::shown(text);
        let url =
            Url::parse(text).map_err(|error| EndpointError(format!("{:?}: {error}", shown())))?;
        if matches!(url.scheme(), "http" | "https") && url.query().is_none() {
            Ok(Self(url))
        } else {
            let reason = format!("{:?} is not an http or https address", shown());
            Err(EndpointError(reason))
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.clone();
        if shown.password().is_some() {
            // A URL with a password also accepts another password.
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
    fn the_address_for_a_browser_has_no_password() {
        for (text, page) in [
            ("http://host:7400", "http://host:7400/#code=x"),
            ("https://user:secret@host/a", "https://host/a/#code=x"),
            ("https://host/a/#old", "https://host/a/#code=x"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.page(Some("code=x")), page);
        }
        let endpoint: Endpoint = "http://host".parse().unwrap();
        assert_eq!(endpoint.page(None), "http://host/");
    }

    #[test]
    fn an_address_is_compared_without_its_password_and_with_its_whole_place() {
        let endpoint: Endpoint = "https://user:secret@host".parse().unwrap();
        for (url, is_same) in [
            ("https://host:443/", true),
            ("https://HOST", true),
            ("http://host:443", false),
            ("https://host:7400", false),
            ("https://host/way", false),
            ("https://host.example.com", false),
            ("host", false),
        ] {
            assert_eq!(endpoint.is_at(url), is_same, "{url}");
        }
    }

    #[test]
    fn a_password_is_hidden_in_every_text_that_contains_one() {
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
    fn requests_contain_the_password_and_debug_does_not() {
        let endpoint: Endpoint = "http://user:secret@host".parse().unwrap();
        assert_eq!(endpoint.url().as_str(), "http://user:secret@host/");
        assert_eq!(format!("{endpoint:?}"), "\"http://user:***@host/\"");
    }
}

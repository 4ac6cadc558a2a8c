//! The URLs of requests: account, container, blob and query.

use percent_encoding::percent_decode_str;

use super::error::{INVALID_QUERY_PARAMETER_VALUE, INVALID_URI, Result};
use super::names::{check_blob, check_container};

/// The resource of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// All containers of the account.
    Account,
    Container(String),
    Blob {
        container: String,
        blob: String,
    },
}

/// The names, in lower case, and the values of a query, both decoded. A `+` stays a `+`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

/// The first part of a path: the name of the account, as it is on the wire.
pub(super) fn account_of(path: &str) -> &str {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_once('/').map_or(path, |(account, _)| account)
}

impl Resource {
    /// The resource in the path behind the account.
    pub(super) fn of_path(path: &str) -> Result<Self> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let rest = path.split_once('/').map_or("", |(_, rest)| rest);
        // Split before it is decoded: an encoded slash belongs to a name.
        let (container, blob) = match rest.split_once('/') {
            Some((container, blob)) => (container, blob),
            None => (rest, ""),
        };
        if container.is_empty() && blob.is_empty() {
            return Ok(Self::Account);
        }
        let container = decoded(container)?;
        check_container(&container)?;
        if blob.is_empty() {
            return Ok(Self::Container(container));
        }
        let blob = decoded(blob)?;
        check_blob(&blob)?;
        Ok(Self::Blob { container, blob })
    }
}

impl Query {
    pub(super) fn parse(query: Option<&str>) -> Result<Self> {
        let pairs = query.unwrap_or_default().split('&');
        let pairs = pairs.filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(name)?.to_ascii_lowercase(), decoded(value)?))
        });
        Ok(Self(pairs.collect::<Result<_>>()?))
    }

    /// The first value of the parameter; empty if it has none.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Refuses duplicate parameters: it is unclear which one counts, and which one was signed.
    pub(super) fn check_unique(&self) -> Result<()> {
        for (at, (name, _)) in self.0.iter().enumerate() {
            if self.0[..at].iter().any(|(earlier, _)| earlier == name) {
                // Without the value, which may be a signature.
                let reason = "the query has it twice";
                return Err(INVALID_QUERY_PARAMETER_VALUE.of_parameter(name, "", reason));
            }
        }
        Ok(())
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

pub(super) fn decoded(text: &str) -> Result<String> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| INVALID_URI.because("the URL must be UTF-8"))?;
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(container: &str, blob: &str) -> Resource {
        Resource::Blob {
            container: container.into(),
            blob: blob.into(),
        }
    }

    #[test]
    fn a_path_is_split_before_it_is_decoded() {
        for (path, resource) in [
            ("/acct", Resource::Account),
            ("/acct/", Resource::Account),
            ("/acct/con", Resource::Container("con".into())),
            ("/acct/con/", Resource::Container("con".into())),
            ("/acct/con/b", blob("con", "b")),
            ("/acct/con/a/b", blob("con", "a/b")),
            ("/acct/con/a//b", blob("con", "a//b")),
            ("/acct/con/a%2Fb", blob("con", "a/b")),
            ("/acct/con/a%20%C3%A4+", blob("con", "a ä+")),
            ("/acct/%24root/b", blob("$root", "b")),
        ] {
            assert_eq!(Resource::of_path(path), Ok(resource), "{path}");
            assert_eq!(account_of(path), "acct");
        }
        for bad in ["/acct//b", "/acct/con/%FF", "/acct/Con/b"] {
            assert!(Resource::of_path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn queries_may_have_any_order_empty_values_and_no_repetition() {
        let query = Query::parse(Some("comp=lease&ResType=container&include=&x")).unwrap();
        assert_eq!(query.get("restype"), Some("container"));
        assert_eq!(query.get("include"), Some(""));
        assert_eq!((query.get("x"), query.get("y")), (Some(""), None));
        assert!(query.check_unique().is_ok());
        let twice = Query::parse(Some("comp=lease&Comp=list")).unwrap();
        assert!(twice.check_unique().is_err());
    }
}

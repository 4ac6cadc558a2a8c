//! The URL of a request: account, container, blob and query.

use percent_encoding::percent_decode_str;

use super::error::{INVALID_QUERY_PARAMETER_VALUE, INVALID_URI, Result};
use super::names::check_names;

/// The resource of a request. A name that is not in the path is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) account: String,
    pub(super) container: String,
    pub(super) blob: String,
}

/// The kind of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// The account with all its containers.
    Account,
    Container,
    Blob,
}

/// The names, in lower case, and the values of a query, both decoded. A `+` is not decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

/// Returns the first part of a path, which is the name of the account as sent.
pub(super) fn account_of(path: &str) -> &str {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_once('/').map_or(path, |(account, _)| account)
}

impl Target {
    pub(super) fn new(account: &str, container: &str, blob: &str) -> Self {
        Self {
            account: account.into(),
            container: container.into(),
            blob: blob.into(),
        }
    }

    /// Parses the resource of a path.
    pub(super) fn of_path(path: &str) -> Result<Self> {
        let path = path.strip_prefix('/').unwrap_or(path);
        // The path is split before it is decoded, because an encoded slash is part of a name.
        let mut parts = path.splitn(3, '/');
        let mut part = || parts.next().unwrap_or_default();
        let (account, container, blob) = (part(), part(), part());
        let target = Self::new(account, &decoded(container)?, &decoded(blob)?);
        check_names(&target)?;
        Ok(target)
    }

    pub(super) const fn level(&self) -> Level {
        match (self.container.is_empty(), self.blob.is_empty()) {
            (true, true) => Level::Account,
            (false, true) => Level::Container,
            (_, false) => Level::Blob,
        }
    }

    /// Returns the container of this resource.
    pub(super) fn of_container(&self) -> Self {
        Self::new(&self.account, &self.container, "")
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

    /// Returns the first value of the parameter, which may be empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.pairs()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// Returns the first value of the parameter. It is empty if the parameter is absent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Refuses duplicate parameters, because the value that counts and the value that was signed
    /// are ambiguous.
    pub(super) fn check_unique(&self) -> Result<()> {
        for (at, (name, _)) in self.0.iter().enumerate() {
            if self.0[..at].iter().any(|(earlier, _)| earlier == name) {
                // The error omits the value, which may be a signature.
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

fn decoded(text: &str) -> Result<String> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| INVALID_URI.because("the URL must be UTF-8"))?;
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_before_it_is_decoded() {
        for (path, container, blob) in [
            ("/acct", "", ""),
            ("/acct/", "", ""),
            ("/acct/con", "con", ""),
            ("/acct/con/", "con", ""),
            ("/acct/con/b", "con", "b"),
            ("/acct/con/a/b", "con", "a/b"),
            ("/acct/con/a//b", "con", "a//b"),
            ("/acct/con/a%2Fb", "con", "a/b"),
            ("/acct/con/a%20%C3%A4+", "con", "a ä+"),
            ("/acct/%24root/b", "$root", "b"),
        ] {
            let target = Target::new("acct", container, blob);
            assert_eq!(Target::of_path(path), Ok(target), "{path}");
            assert_eq!(account_of(path), "acct");
        }
        for bad in ["/acct//b", "/acct/con/%FF", "/acct/Con/b"] {
            assert!(Target::of_path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn queries_may_have_any_order_and_empty_values_but_no_duplicates() {
        let query = Query::parse(Some("comp=lease&ResType=container&include=&x")).unwrap();
        assert_eq!(query.get("restype"), Some("container"));
        assert_eq!(query.get("include"), Some(""));
        assert_eq!((query.get("x"), query.get("y")), (Some(""), None));
        assert!(query.check_unique().is_ok());
        let twice = Query::parse(Some("comp=lease&Comp=list")).unwrap();
        assert!(twice.check_unique().is_err());
    }
}

//! Conditional headers, as in "Specifying conditional headers for Blob service operations" of the
//! Azure Storage REST API.

use axum::http::HeaderMap;
use chrono::{DateTime, Utc};

use super::error::{CONDITION_NOT_MET, NOT_MODIFIED, Result, UNSUPPORTED_HEADER};
use super::headers::{date, given, invalid};

/// The conditions of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
    modified_since: Option<DateTime<Utc>>,
    unmodified_since: Option<DateTime<Utc>>,
}

/// One or more ETags, without quotes.
#[derive(Clone, Debug)]
enum Tags {
    Any,
    These(Vec<String>),
}

impl Tags {
    fn parse(text: &str) -> Self {
        if text == "*" || text == "\"*\"" {
            return Self::Any;
        }
        let tags = text.split(',').map(|tag| {
            let tag = tag.trim();
            let tag = tag.strip_prefix("W/").unwrap_or(tag);
            tag.trim_matches('"').to_owned()
        });
        Self::These(tags.collect())
    }

    fn matches(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::These(tags) => tags.iter().any(|tag| tag == etag),
        }
    }
}

impl Conditions {
    pub(super) fn of(headers: &HeaderMap) -> Result<Self> {
        let tags = |name| given(headers, name).map(|text| text.map(Tags::parse));
        let since = |name: &'static str| match given(headers, name)? {
            Some(text) => match date(text) {
                Some(date) => Ok(Some(date)),
                None => Err(invalid(name, "it must be a date of HTTP")),
            },
            None => Ok(None),
        };
        Ok(Self {
            if_match: tags("if-match")?,
            if_none_match: tags("if-none-match")?,
            modified_since: since("if-modified-since")?,
            unmodified_since: since("if-unmodified-since")?,
        })
    }

    /// Whether there are no conditions.
    pub(super) const fn is_none(&self) -> bool {
        let Self {
            if_match,
            if_none_match,
            modified_since,
            unmodified_since,
        } = self;
        if_match.is_none()
            && if_none_match.is_none()
            && modified_since.is_none()
            && unmodified_since.is_none()
    }

    /// The conditions on a container, which has dates only.
    pub(super) fn of_container(headers: &HeaderMap) -> Result<Self> {
        let conditions = Self::of(headers)?;
        if conditions.if_match.is_some() || conditions.if_none_match.is_some() {
            return Err(UNSUPPORTED_HEADER.because("containers have conditions by date only"));
        }
        Ok(conditions)
    }

    /// Whether there is `If-None-Match: *`: the blob must not exist.
    pub(super) const fn only_new(&self) -> bool {
        matches!(self.if_none_match, Some(Tags::Any))
    }

    /// The same without `If-None-Match: *`, which is checked after the lease.
    pub(super) fn without_only_new(self) -> Self {
        let if_none_match = if self.only_new() {
            None
        } else {
            self.if_none_match
        };
        Self {
            if_none_match,
            ..self
        }
    }

    /// Checks them for a write.
    pub(super) fn check_write(&self, etag: &str, modified: DateTime<Utc>) -> Result<()> {
        let met = self.matches(etag)
            && self.is_unmodified(modified)
            && !self.is_known(etag)
            && !self.is_old(modified);
        if met {
            Ok(())
        } else {
            Err(CONDITION_NOT_MET.into())
        }
    }

    /// Checks them for a write of a new blob, which no ETag matches.
    pub(super) fn check_absent(&self) -> Result<()> {
        match self.if_match {
            Some(_) => Err(CONDITION_NOT_MET.into()),
            None => Ok(()),
        }
    }

    /// Checks them for a read: of the two conditions for a newer version, one is enough.
    pub(super) fn check_read(&self, etag: &str, modified: DateTime<Utc>) -> Result<()> {
        if !self.matches(etag) || !self.is_unmodified(modified) {
            return Err(CONDITION_NOT_MET.into());
        }
        let is_new = match (&self.if_none_match, self.modified_since) {
            (None, None) => true,
            (Some(_), None) => !self.is_known(etag),
            (None, Some(_)) => !self.is_old(modified),
            (Some(_), Some(_)) => !self.is_known(etag) || !self.is_old(modified),
        };
        if is_new {
            Ok(())
        } else {
            Err(NOT_MODIFIED.into())
        }
    }

    fn matches(&self, etag: &str) -> bool {
        self.if_match.as_ref().is_none_or(|tags| tags.matches(etag))
    }

    fn is_known(&self, etag: &str) -> bool {
        let tags = self.if_none_match.as_ref();
        tags.is_some_and(|tags| tags.matches(etag))
    }

    /// Dates have a resolution of one second.
    fn is_unmodified(&self, modified: DateTime<Utc>) -> bool {
        let since = self.unmodified_since;
        since.is_none_or(|since| modified.timestamp() <= since.timestamp())
    }

    fn is_old(&self, modified: DateTime<Utc>) -> bool {
        let since = self.modified_since;
        since.is_some_and(|since| modified.timestamp() <= since.timestamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::error::AzureErrorCode;
    use axum::http::HeaderValue;

    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    fn check(
        headers: &[(&'static str, &'static str)],
    ) -> (Option<AzureErrorCode>, Option<AzureErrorCode>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let conditions = Conditions::of(&map).unwrap();
        let modified = date(THEN).unwrap() + chrono::Duration::milliseconds(500);
        let code = |result: Result<()>| result.err().map(|error| error.code);
        (
            code(conditions.check_write("0x1", modified)),
            code(conditions.check_read("0x1", modified)),
        )
    }

    #[test]
    fn conditions_are_met_or_not_as_documented() {
        let (unmet, not_modified) = (Some(CONDITION_NOT_MET), Some(NOT_MODIFIED));
        for (headers, write, read) in [
            (&[][..], None, None),
            (&[("if-match", ""), ("if-none-match", "")], None, None),
            (&[("if-modified-since", "")], None, None),
            (&[("if-match", "\"0x1\"")], None, None),
            (&[("if-match", "0x1")], None, None),
            (&[("if-match", "*")], None, None),
            (&[("if-match", "\"0x2\", \"0x1\"")], None, None),
            (&[("if-match", "\"0x2\"")], unmet, unmet),
            (&[("if-none-match", "\"0x2\"")], None, None),
            (&[("if-none-match", "\"0x1\"")], unmet, not_modified),
            (&[("if-none-match", "*")], unmet, not_modified),
            (&[("if-modified-since", BEFORE)], None, None),
            (&[("if-modified-since", THEN)], unmet, not_modified),
            (&[("if-unmodified-since", THEN)], None, None),
            (&[("if-unmodified-since", BEFORE)], unmet, unmet),
            // Of the two conditions for a newer version one is enough for a read; a write needs
            // both.
            (
                &[("if-none-match", "0x2"), ("if-modified-since", THEN)],
                unmet,
                None,
            ),
            (
                &[("if-match", "0x1"), ("if-unmodified-since", BEFORE)],
                unmet,
                unmet,
            ),
        ] {
            assert_eq!(check(headers), (write, read), "{headers:?}");
        }
    }
}

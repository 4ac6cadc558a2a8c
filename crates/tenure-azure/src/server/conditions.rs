//! Conditional headers, as in "Specifying conditional headers for Blob service operations" of the
//! Azure Storage REST API.

use axum::http::HeaderMap;
use chrono::{DateTime, Utc};

use super::blobs::Item;
use super::error::{CONDITION_NOT_MET, NOT_MODIFIED, Result, UNSUPPORTED_HEADER};
use super::headers::{date, given, invalid};

/// The conditions of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
    modified_since: Option<DateTime<Utc>>,
    unmodified_since: Option<DateTime<Utc>>,
}

/// One or more ETags, without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        let since = |name: &str| {
            let parsed =
                |text| date(text).ok_or_else(|| invalid(name, "it must be a date of HTTP"));
            given(headers, name)?.map(parsed).transpose()
        };
        Ok(Self {
            if_match: tags("if-match")?,
            if_none_match: tags("if-none-match")?,
            modified_since: since("if-modified-since")?,
            unmodified_since: since("if-unmodified-since")?,
        })
    }

    /// Reads the conditions on a container, which are only dates.
    pub(super) fn of_container(headers: &HeaderMap) -> Result<Self> {
        let conditions = Self::of(headers)?;
        if conditions.if_match.is_some() || conditions.if_none_match.is_some() {
            return Err(UNSUPPORTED_HEADER.because("containers have conditions by date only"));
        }
        Ok(conditions)
    }

    /// Removes `If-None-Match: *`, because it is checked after the lease. Returns whether the
    /// condition existed, which means that the blob must not exist.
    pub(super) fn take_only_new(&mut self) -> bool {
        let only_new = self.if_none_match == Some(Tags::Any);
        if only_new {
            self.if_none_match = None;
        }
        only_new
    }

    /// Checks the conditions for a write.
    pub(super) fn check_write(&self, item: &Item) -> Result<()> {
        if self.is_same(item) && !self.is_known(item) && !self.is_old(item) {
            return Ok(());
        }
        Err(CONDITION_NOT_MET.into())
    }

    /// Checks the conditions for a write of a new blob, which no ETag matches.
    pub(super) fn check_absent(&self) -> Result<()> {
        match self.if_match {
            Some(_) => Err(CONDITION_NOT_MET.into()),
            None => Ok(()),
        }
    }

    /// Checks the conditions for a read. Of the two conditions for a newer version, one is
    /// sufficient.
    pub(super) fn check_read(&self, item: &Item) -> Result<()> {
        if !self.is_same(item) {
            return Err(CONDITION_NOT_MET.into());
        }
        let is_unchanged = match (&self.if_none_match, self.modified_since) {
            (Some(_), Some(_)) => self.is_known(item) && self.is_old(item),
            _ => self.is_known(item) || self.is_old(item),
        };
        if is_unchanged {
            return Err(NOT_MODIFIED.into());
        }
        Ok(())
    }

    /// Returns whether the conditions for an unchanged version are met.
    fn is_same(&self, item: &Item) -> bool {
        let tags = self.if_match.as_ref();
        let since = self.unmodified_since;
        tags.is_none_or(|tags| tags.matches(&item.etag()))
            && since.is_none_or(|since| is_up_to(item, since))
    }

    fn is_known(&self, item: &Item) -> bool {
        let tags = self.if_none_match.as_ref();
        tags.is_some_and(|tags| tags.matches(&item.etag()))
    }

    fn is_old(&self, item: &Item) -> bool {
        let since = self.modified_since;
        since.is_some_and(|since| is_up_to(item, since))
    }
}

/// Returns whether the last change was at or before this date. Dates have a resolution of one
/// second.
fn is_up_to(item: &Item, date: DateTime<Utc>) -> bool {
    item.modified().timestamp() <= date.timestamp()
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
        let item = Item {
            revision: 1,
            modified_ms: date(THEN).unwrap().timestamp_millis() + 500,
            ..Item::default()
        };
        let code = |result: Result<()>| result.err().map(|error| error.code);
        (
            code(conditions.check_write(&item)),
            code(conditions.check_read(&item)),
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
            // Of the two conditions for a newer version, one is sufficient for a read; a write
            // needs both.
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

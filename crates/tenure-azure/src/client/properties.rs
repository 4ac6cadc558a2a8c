//! The lease and the term of a blob, in the headers of the service.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use reqwest::header::{DATE, HeaderMap, HeaderName, HeaderValue};
use tenure_core::lease::State;
use tenure_core::time::millis;
use tenure_core::wire::{DurationMs, LeaseView};
use tenure_core::{CandidateId, ElectionName, Epoch, UnixMillis};

use crate::protocol::{LEASE_DURATION, LEASE_STATE, METADATA_PREFIX};

/// The epoch of the last term.
const EPOCH: &str = "x-ms-meta-tenureepoch";

/// The candidate of the last term.
const HOLDER: &str = "x-ms-meta-tenureholder";

/// The leader's metadata: a JSON object of strings.
const METADATA: &str = "x-ms-meta-tenuremetadata";

/// The properties of a blob.
#[derive(Clone, Debug)]
pub(super) struct Properties(pub(super) HeaderMap);

impl Properties {
    /// Returns the time of the service's clock, as an HTTP date.
    pub(super) fn date(&self) -> Option<&str> {
        self.text(DATE.as_str())
    }

    /// Returns the time of the service's clock.
    pub(super) fn wall(&self) -> Option<UnixMillis> {
        let date = httpdate::parse_http_date(self.date()?).ok()?;
        let since_1970 = date.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Some(UnixMillis::new(millis(since_1970)))
    }

    /// Returns the epoch of the last term, if there was one.
    ///
    /// # Errors
    ///
    /// If the metadata contain a text that is not an epoch. The error is that text.
    pub(super) fn epoch(&self) -> Result<Option<Epoch>, String> {
        let Some(value) = self.0.get(EPOCH) else {
            return Ok(None);
        };
        let number = value.to_str().ok().and_then(|text| text.parse().ok());
        let epoch = number.and_then(Epoch::new);
        epoch.map(Some).ok_or_else(|| format!("{value:?}"))
    }

    /// Returns the leader in the metadata. Between the grant of a lease and the writing of its
    /// epoch, this is still the previous leader.
    pub(super) fn leader(&self) -> Option<(CandidateId, Epoch)> {
        let holder = self.text(HOLDER)?.parse().ok()?;
        Some((holder, self.epoch().ok()??))
    }

    /// Returns the lease as a store would show it. Properties that blobs do not have are null.
    pub(super) fn view(&self, election: &ElectionName) -> LeaseView {
        let state = match self.text(LEASE_STATE) {
            Some("leased") => State::Leased,
            Some("breaking") => State::Breaking,
            Some("broken") => State::Broken,
            Some("expired") => State::Expired,
            _ => State::Available,
        };
        let is_held = matches!(state, State::Leased | State::Breaking);
        let leader = self.leader().filter(|_| is_held);
        let is_infinite = self.text(LEASE_DURATION) == Some("infinite");
        let (namespace, name) = (election.namespace.to_string(), election.name.to_string());
        let mut view = LeaseView::new(namespace, name, state);
        view.holder = leader.as_ref().map(|(holder, _)| holder.to_string());
        view.epoch = leader.map(|(_, epoch)| epoch.get());
        view.duration_ms = (is_held && is_infinite).then_some(DurationMs::Infinite);
        view.metadata = is_held.then(|| self.metadata());
        view
    }

    /// Returns the metadata of the last leader.
    fn metadata(&self) -> BTreeMap<String, String> {
        let json = self.text(METADATA);
        let metadata = json.and_then(|text| serde_json::from_str(text).ok());
        metadata.unwrap_or_default()
    }

    /// Returns the headers with all metadata of the blob for a term. The metadata of other programs
    /// remain.
    pub(super) fn headers_of_term(
        &self,
        holder: &CandidateId,
        epoch: Epoch,
        metadata: &BTreeMap<String, String>,
    ) -> HeaderMap {
        let others = self.0.iter().filter(|(name, _)| {
            let name = name.as_str();
            name.starts_with(METADATA_PREFIX) && ![EPOCH, HOLDER, METADATA].contains(&name)
        });
        let mut headers = HeaderMap::new();
        for (name, value) in others {
            headers.append(name.clone(), value.clone());
        }
        let mut set = |name: &'static str, text: String| {
            let value = HeaderValue::try_from(text).expect("visible ASCII");
            headers.insert(HeaderName::from_static(name), value);
        };
        set(EPOCH, epoch.to_string());
        set(HOLDER, holder.to_string());
        if !metadata.is_empty() {
            set(METADATA, in_ascii(metadata));
        }
        headers
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }
}

/// Formats metadata as JSON in visible ASCII. Headers allow no other characters, and a client may
/// merge spaces in a header before it signs.
fn in_ascii(metadata: &BTreeMap<String, String>) -> String {
    let json = serde_json::to_string(metadata).expect("texts by key can be written");
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii_graphic() {
            ascii.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(ascii, "\\u{unit:04x}");
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(headers: &[(&'static str, &'static str)]) -> Properties {
        let headers = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        Properties(headers.collect())
    }

    #[test]
    fn metadata_with_any_text_survive_writing_and_reading() {
        let before = properties(&[
            ("x-ms-meta-owner", "somebody else"),
            (EPOCH, "7"),
            (METADATA, "{}"),
            ("etag", "\"1\""),
        ]);
        assert_eq!(before.epoch(), Ok(Epoch::new(7)));
        let metadata: BTreeMap<String, String> = [
            ("address", "http://10.0.0.7:8080"),
            ("größe \u{1f600}", "\"two  spaces\"\n\t\\"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let holder: CandidateId = "worker-1".parse().unwrap();
        let epoch = Epoch::new(8).unwrap();
        let mut headers = before.headers_of_term(&holder, epoch, &metadata);
        assert_eq!(headers["x-ms-meta-owner"], "somebody else");
        assert!(!headers.contains_key("etag"));
        let said = headers[METADATA].as_bytes();
        assert!(said.iter().all(u8::is_ascii_graphic), "{headers:?}");
        headers.insert("x-ms-lease-state", HeaderValue::from_static("leased"));
        let after = Properties(headers);
        assert_eq!(after.leader(), Some((holder, epoch)));
        let view = after.view(&"billing/nightly".parse().unwrap());
        assert_eq!((view.state, view.epoch), (State::Leased, Some(8)));
        assert_eq!(view.metadata, Some(metadata));
    }

    #[test]
    fn a_free_lease_has_no_leader() {
        for state in ["available", "expired", "broken"] {
            let free = properties(&[
                (EPOCH, "7"),
                (HOLDER, "worker-1"),
                ("x-ms-lease-state", state),
            ]);
            let view = free.view(&"billing/nightly".parse().unwrap());
            assert_eq!((view.holder, view.epoch, view.metadata), (None, None, None));
        }
    }

    #[test]
    fn a_malformed_epoch_is_an_error_and_not_a_missing_epoch() {
        for bad in [
            "",
            "-1",
            "seven",
            "99999999999999999999",
            "9007199254740992",
        ] {
            assert!(properties(&[(EPOCH, bad)]).epoch().is_err(), "{bad}");
        }
        assert_eq!(properties(&[]).epoch(), Ok(None));
    }

    #[test]
    fn the_wall_clock_is_that_of_the_service() {
        let dated = properties(&[("date", "Sat, 21 Nov 2026 12:00:00 GMT")]);
        assert_eq!(dated.wall(), Some(UnixMillis::new(1_795_262_400_000)));
        assert_eq!(properties(&[("date", "today")]).wall(), None);
        assert_eq!(properties(&[]).wall(), None);
    }
}

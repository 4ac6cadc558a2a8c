//! Ids of requests. The answers to changes and to refused requests contain the id. The audit log
//! and the store's log name the request by the id.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

/// The name of the header of an answer that contains the id.
pub(super) const ANSWER_HEADER: &str = "tenure-request-id";

const ANSWERED: HeaderName = HeaderName::from_static(ANSWER_HEADER);

/// The header of a request that contains an id, as proxies set it. The store uses that id, so that
/// one id stands for the request in all logs.
const GIVEN: HeaderName = HeaderName::from_static("x-request-id");

/// The maximum length of an id from a request: enough for a UUID or a trace id.
pub(super) const MAX_LEN: usize = 64;

/// The id of a request, which is visible ASCII.
#[derive(Clone, Debug)]
pub(super) struct RequestId(HeaderValue);

/// The id of a request, created only if it is needed: a renewal that succeeds needs no id.
#[derive(Debug)]
pub(super) struct LazyRequestId {
    given: Option<HeaderValue>,
    id: OnceLock<RequestId>,
}

impl LazyRequestId {
    /// Returns the id of the request with these headers.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(GIVEN).filter(|given| is_valid(given));
        Self {
            given: given.cloned(),
            id: OnceLock::new(),
        }
    }

    pub(super) fn id(&self) -> &RequestId {
        self.id.get_or_init(|| match &self.given {
            Some(given) => RequestId(given.clone()),
            None => RequestId::unique(),
        })
    }

    /// Returns the id if it was used.
    pub(super) fn used(&self) -> Option<&RequestId> {
        self.id.get()
    }

    /// Adds the id to the answer if the id was used, or if the answer is a refusal.
    pub(super) fn answer(&self, response: &mut Response) {
        if self.used().is_some() || !response.status().is_success() {
            let RequestId(id) = self.id().clone();
            response.headers_mut().insert(ANSWERED, id);
        }
    }
}

impl RequestId {
    /// Creates an id that no other request has. The id is not a secret, so it needs no random bits
    /// of its own, which cost a system call.
    fn unique() -> Self {
        static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = SEED.hash_one(LAST.fetch_add(1, Ordering::Relaxed));
        let id = HeaderValue::try_from(format!("{id:016x}"));
        Self(id.unwrap_or(HeaderValue::from_static("unknown")))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or_default())
    }
}

fn is_valid(given: &HeaderValue) -> bool {
    let bytes = given.as_bytes();
    (1..=MAX_LEN).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_id_is_used_if_it_is_visible_ascii_and_short() {
        let id = |given: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(GIVEN, HeaderValue::from_bytes(given).unwrap());
            LazyRequestId::of(&headers).id().to_string()
        };
        let longest = "x".repeat(64);
        for given in ["a", "r-7f3c", "\"}{\\'", &longest] {
            assert_eq!(id(given.as_bytes()), given);
        }
        for given in ["", "two words", "tab\there", "h\u{e9}", &"x".repeat(65)] {
            let made = id(given.as_bytes());
            assert_eq!(made.len(), 16, "{given:?}: {made}");
        }
    }

    #[test]
    fn a_request_without_an_id_gets_one_of_its_own() {
        let made = || LazyRequestId::of(&HeaderMap::new()).id().to_string();
        assert_ne!(made(), made());
        let one = LazyRequestId::of(&HeaderMap::new());
        assert_eq!(one.id().to_string(), one.id().to_string());
    }
}

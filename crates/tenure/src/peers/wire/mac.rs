//! Authentication of members by a shared key.

use std::fmt;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;

use crate::base::peer_key::PeerKey;

/// The header with the MAC of a request or an answer.
pub(in crate::peers) const MAC_HEADER: &str = "tenure-mac";

/// The interval at which a key file is read again.
const FILE_INTERVAL: Duration = Duration::from_secs(10);

/// Authenticates messages by HMAC-SHA256 in hexadecimal digits.
pub(crate) struct Mac {
    /// The key to send with comes first. The list is empty if members have no key.
    keys: RwLock<Arc<[hmac::Key]>>,
    file: Option<PathBuf>,
}

/// The MAC of a request, and its key. The answer is authenticated with the same key, so a member
/// need not know both keys.
#[derive(Clone)]
pub(in crate::peers) struct RequestMac {
    text: String,
    key: Option<hmac::Key>,
}

impl Mac {
    /// Creates an authenticator with this key. Without a key nothing is authenticated: **any
    /// process that reaches this member can vote, and be elected.** Use that only in a trusted
    /// network, and only if the configuration explicitly requests it.
    pub(crate) fn new(key: Option<&PeerKey>) -> Self {
        Self {
            keys: RwLock::new(key.map(keys_of).unwrap_or_default()),
            file: key.and_then(|key| key.file.clone()),
        }
    }

    /// Returns whether the members have a key.
    pub(in crate::peers) fn is_keyed(&self) -> bool {
        !self.keys().is_empty()
    }

    /// Computes the MAC of a request to send.
    pub(in crate::peers) fn of_request(&self, path: &str, body: &[u8]) -> RequestMac {
        RequestMac::new(self.keys().first(), path, body)
    }

    /// Returns the MAC of a received request if it was computed with one of the keys. If the
    /// members have no key, there must be no MAC.
    pub(in crate::peers) fn check_request(
        &self,
        path: &str,
        body: &[u8],
        given: Option<&str>,
    ) -> Option<RequestMac> {
        let keys = self.keys();
        if keys.is_empty() {
            return given.is_none().then(|| RequestMac::new(None, path, body));
        }
        let mut expected = keys
            .iter()
            .map(|key| RequestMac::new(Some(key), path, body));
        expected.find(|expected| Self::is_good(expected.header(), given))
    }

    /// Returns whether a MAC equals the `expected` one. If no MAC is expected, there must be no
    /// MAC.
    pub(in crate::peers) fn is_good(expected: Option<&str>, mac: Option<&str>) -> bool {
        match (expected, mac) {
            (None, None) => true,
            // The comparison takes constant time, so it does not reveal how much of a wrong MAC was
            // correct.
            (Some(expected), Some(mac)) => {
                verify_slices_are_equal(expected.as_bytes(), mac.as_bytes()).is_ok()
            }
            _ => false,
        }
    }

    /// Reads the key file repeatedly, so that a key can be replaced without a restart.
    pub(in crate::peers) async fn keep_fresh(self: Arc<Self>) {
        let Some(file) = self.file.clone() else {
            return;
        };
        let mut known = None;
        loop {
            let path = file.clone();
            // The file system may be slow.
            let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
            let read = read.map_err(|error| error.to_string());
            let read = read.and_then(|read| read.map_err(|error| error.to_string()));
            if known.as_ref() != Some(&read) {
                let is_first = known.is_none();
                let key = read.clone().and_then(|bytes| {
                    PeerKey::from_lines(&bytes).map_err(|error| error.to_string())
                });
                match key {
                    Ok(key) if !is_first => {
                        self.replace(&key);
                        tracing::info!(file = %file.display(), "read the key of the group again");
                    }
                    Ok(key) => self.replace(&key),
                    Err(error) => {
                        tracing::warn!(file = %file.display(), error,
                            "can't read the key of the group again, keeping the one before");
                    }
                }
                known = Some(read);
            }
            tokio::time::sleep(FILE_INTERVAL).await;
        }
    }

    fn replace(&self, key: &PeerKey) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys_of(key);
    }

    fn keys(&self) -> Arc<[hmac::Key]> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&keys)
    }
}

impl RequestMac {
    fn new(key: Option<&hmac::Key>, path: &str, body: &[u8]) -> Self {
        let text = key.map(|key| compute(key, &["request", "POST", path], body));
        Self {
            text: text.unwrap_or_default(),
            key: key.cloned(),
        }
    }

    /// Returns the value of the header; `None` if members have no key.
    pub(in crate::peers) fn header(&self) -> Option<&str> {
        self.key.as_ref().map(|_| self.text.as_str())
    }

    /// Computes the MAC of an answer. The MAC is valid only for this request, because no other
    /// request has the same MAC: a message contains the number of its sender's process and its own
    /// number.
    pub(in crate::peers) fn of_answer(&self, status: u16, body: &[u8]) -> Option<String> {
        let key = self.key.as_ref()?;
        Some(compute(
            key,
            &["answer", &self.text, &status.to_string()],
            body,
        ))
    }
}

fn keys_of(key: &PeerKey) -> Arc<[hmac::Key]> {
    let keys = key.keys.iter();
    keys.map(|key| hmac::Key::new(hmac::HMAC_SHA256, key))
        .collect()
}

/// Computes the MAC of the words and the body. No word contains a line feed, so different contents
/// never result in the same input.
fn compute(key: &hmac::Key, words: &[&str], body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(key);
    for word in words {
        context.update(word.as_bytes());
        context.update(b"\n");
    }
    context.update(body);
    hex(context.sign().as_ref())
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_keyed() { "keyed" } else { "insecure" };
        f.debug_tuple("Mac").field(&kind).finish()
    }
}

pub(in crate::peers) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "the old key of the group";
    const NEW: &str = "the new key of the group";

    fn mac(lines: &[&str]) -> Mac {
        let key = PeerKey::from_lines(lines.join("\n").as_bytes()).unwrap();
        Mac::new(Some(&key))
    }

    /// Returns whether `to` accepts a request of `from`, and `from` accepts the answer.
    fn agree(from: &Mac, to: &Mac) -> bool {
        let sent = from.of_request("/path", b"body");
        let Some(checked) = to.check_request("/path", b"body", sent.header()) else {
            return false;
        };
        let answer = checked.of_answer(200, b"answer");
        Mac::is_good(sent.of_answer(200, b"answer").as_deref(), answer.as_deref())
    }

    #[test]
    fn a_key_is_replaced_member_by_member() {
        // The new key is added on all members, then the keys are swapped on all, then the old key
        // is removed on all.
        let steps = [&[OLD][..], &[OLD, NEW], &[NEW, OLD], &[NEW]];
        for pair in steps.windows(2) {
            let [before, after] = [mac(pair[0]), mac(pair[1])];
            for (from, to) in [(&before, &after), (&after, &before), (&after, &after)] {
                assert!(agree(from, to), "{pair:?}");
            }
        }
        let (old, new) = (mac(&[OLD]), mac(&[NEW]));
        assert!(!agree(&old, &new) && !agree(&new, &old));
    }

    #[test]
    fn without_a_key_there_is_no_mac() {
        let (none, keyed) = (Mac::new(None), mac(&[OLD]));
        assert!(agree(&none, &none) && !agree(&none, &keyed) && !agree(&keyed, &none));
    }

    #[cfg(feature = "config-file")]
    #[tokio::test]
    async fn a_key_file_is_read_again() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, OLD).unwrap();
        let key = PeerKey::from_lines(OLD.as_bytes()).unwrap();
        let mac = Arc::new(Mac::new(Some(&key.with_file(path.clone()))));
        std::fs::write(&path, format!("{NEW}\n{OLD}")).unwrap();
        let refresh = tokio::spawn(Arc::clone(&mac).keep_fresh());
        let wait = async {
            while mac.keys().len() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(10), wait).await;
        waited.expect("both keys");
        refresh.abort();
    }
}

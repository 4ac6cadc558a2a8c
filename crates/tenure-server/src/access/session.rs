//! Sessions: credentials for the page that shows the store to people. A page keeps a session instead
//! of the credential from which the session was made.
//!
//! The store keeps no list of sessions, apart from those that were ended early. A session has the name of its principal and its end, and a
//! code of authentication (HMAC) under a key that is random for each start of the store. It refers
//! to the credential from which it was made, so it ends with that credential, and with the store.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use tenure_core::Name;
use tenure_core::wire::{Code, Problem};

use super::caller::{Admission, Proof};
use super::failures::{AuthFailure, Refusal};
use super::jwt::Identity;
use super::refusal_log::CredentialNames;
use super::secret::{SecretHash, SecretId, random_secret};
use crate::shares::{Share, Shares, Tenant};

/// The beginning of every session. Tokens begin in another way.
pub(super) const START: &str = "tns1_";

/// The time for which a session is valid at most.
const LIFE: Duration = Duration::from_secs(12 * 3600);

/// The time for which a code can be exchanged for a session.
const CODE_LIFE: Duration = Duration::from_secs(60);

/// The maximum number of codes that are valid at the same time, and of those of one principal: a
/// person who signs in needs one.
const MAX_CODES: usize = 100;
const MAX_OWN_CODES: usize = 5;

/// The maximum number of sessions of one principal, and of all, that were ended early and would
/// still be valid. A person signs out a few times a day.
const MAX_ENDED_OF_ONE: usize = 100;
const MAX_ENDED: usize = 10_000;

const MAC_LEN: usize = 32;

/// The key of the sessions of this process, the codes that were not used yet, and the sessions that
/// were ended early.
pub(super) struct Sessions {
    key: hmac::Key,
    codes: Mutex<HashMap<SecretHash, IssuedCode>>,
    shares: Shares<Tenant>,
    /// The number of the next session.
    next: AtomicU64,
    ended: Mutex<HashMap<u64, Arc<Session>>>,
}

#[derive(Debug)]
struct IssuedCode {
    admission: Arc<Admission>,
    until: Instant,
    _share: Share<Tenant>,
}

/// A session as the store sees it: everything but its code of authentication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The number of the session in its process.
    #[serde(rename = "i")]
    number: u64,
    /// The name of the principal.
    #[serde(rename = "n")]
    pub(super) principal: String,
    /// The end, in seconds since 1970.
    #[serde(rename = "e")]
    end: u64,
    #[serde(rename = "o")]
    pub(super) origin: Origin,
}

/// The credential from which a session was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Origin {
    /// The token with this id.
    #[serde(rename = "t")]
    Token(String),
    /// A JSON web token of an identity in this Kubernetes namespace, if it is in one, which the key
    /// with this fingerprint has signed.
    #[serde(rename = "j")]
    Jwt(Option<String>, String),
    /// A client certificate, under the authorities with this fingerprint.
    #[serde(rename = "c")]
    Certificate(Option<String>, String),
}

/// A new session or a new code, and its end.
pub(crate) struct Issued {
    pub(crate) text: String,
    pub(crate) expires: SystemTime,
}

impl Session {
    /// Creates a session with the rights of this caller. `None` if the caller has sent a session.
    fn of(admission: &Admission, number: u64, now: SystemTime) -> Option<Self> {
        let of_identity = |identity: &Identity| identity.namespace.as_ref().map(Name::to_string);
        let origin = match &admission.proof {
            Proof::Token(id) => Origin::Token(id.to_string()),
            Proof::Identity(identity, key) => Origin::Jwt(of_identity(identity), key.fingerprint()),
            Proof::Certificate(verified) => Origin::Certificate(
                of_identity(&verified.identity),
                verified.authorities.fingerprint(),
            ),
            Proof::Session(_) => return None,
        };
        let end = now + LIFE;
        let end = admission.expires.map_or(end, |expires| expires.min(end));
        Some(Self {
            number,
            principal: admission.principal.name.to_string(),
            end: end.duration_since(UNIX_EPOCH).ok()?.as_secs(),
            origin,
        })
    }

    /// Returns the time from which on the session is refused.
    pub(super) fn expires(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.end)
    }

    /// Returns the id of the token from which the session was made.
    pub(crate) fn secret_id(&self) -> Option<SecretId> {
        match &self.origin {
            Origin::Token(id) => id.parse().ok(),
            Origin::Jwt(..) | Origin::Certificate(..) => None,
        }
    }

    /// Returns the identity in the JSON web token or in the certificate.
    pub(super) fn identity(&self) -> Option<Identity> {
        let namespace = match &self.origin {
            Origin::Token(_) => None,
            Origin::Jwt(namespace, _) | Origin::Certificate(namespace, _) => namespace.as_ref(),
        };
        Some(Identity {
            text: self.principal.as_str().into(),
            namespace: match namespace {
                Some(namespace) => Some(namespace.parse().ok()?),
                None => None,
            },
        })
    }
}

impl Sessions {
    /// Creates the key for this process.
    pub(super) fn new() -> Self {
        let mut key = [0; 32];
        getrandom::fill(&mut key).unwrap_or_else(|error| panic!("no random bits: {error}"));
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            codes: Mutex::default(),
            shares: Shares::with_limit(MAX_CODES, MAX_OWN_CODES),
            next: AtomicU64::new(0),
            ended: Mutex::default(),
        }
    }

    /// Issues a session to a caller; `None` if the caller has sent a session.
    pub(super) fn issue(&self, admission: &Admission, now: SystemTime) -> Option<Issued> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let session = Session::of(admission, number, now)?;
        let mut bytes = serde_json::to_vec(&session).ok()?;
        let mac = hmac::sign(&self.key, &bytes);
        bytes.extend_from_slice(mac.as_ref());
        Some(Issued {
            text: format!("{START}{}", URL_SAFE_NO_PAD.encode(bytes)),
            expires: session.expires(),
        })
    }

    /// Returns the session with this text, if this process has issued it and it has not ended.
    /// `text` is without [`START`].
    pub(super) fn find(&self, text: &str, now: SystemTime) -> Result<Arc<Session>, Refusal> {
        let session = self.verified(text);
        let session = session.ok_or_else(|| {
            AuthFailure::Unknown.because("the store has not made it since its start")
        })?;
        if now >= session.expires() {
            return Err(AuthFailure::Expired.because("it has expired"));
        }
        match self.has_ended(&session) {
            true => Err(AuthFailure::Unknown.because("its user has signed out")),
            false => Ok(session.into()),
        }
    }

    /// Ends a session early.
    pub(super) fn end(&self, session: &Arc<Session>, now: SystemTime) -> Result<(), Problem> {
        let mut ended = self.ended();
        ended.retain(|_, ended| now < ended.expires());
        let of_one = ended.values();
        let of_one = of_one.filter(|ended| ended.principal == session.principal);
        if ended.len() >= MAX_ENDED || of_one.count() >= MAX_ENDED_OF_ONE {
            let detail = format!(
                "a principal can end {MAX_ENDED_OF_ONE} sessions early, and all of them {MAX_ENDED}; \
                 each of them counts until it would have expired"
            );
            return Err(Problem::new(Code::OverLimit, detail));
        }
        ended.insert(session.number, Arc::clone(session));
        Ok(())
    }

    pub(super) fn has_ended(&self, session: &Session) -> bool {
        self.ended().contains_key(&session.number)
    }

    fn verified(&self, text: &str) -> Option<Session> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (claims, mac) = split(&bytes)?;
        hmac::verify(&self.key, claims, mac).ok()?;
        serde_json::from_slice(claims).ok()
    }

    /// Issues a code that its reader can exchange for a session with the rights of this caller.
    pub(super) fn issue_code(
        &self,
        admission: &Arc<Admission>,
        now: Instant,
    ) -> Result<Issued, Problem> {
        let mut codes = self.codes();
        codes.retain(|_, code| now < code.until);
        let tenant = Tenant::of(Some(&admission.owner), None);
        let share = self
            .shares
            .admit(&tenant, "one-time codes that nobody has used")?;
        let text = format!("tnc1_{}", random_secret());
        let issued = IssuedCode {
            admission: Arc::clone(admission),
            until: now + CODE_LIFE,
            _share: share,
        };
        codes.insert(SecretHash::of(&text), issued);
        Ok(Issued {
            text,
            expires: SystemTime::now() + CODE_LIFE,
        })
    }

    /// Uses a code up. Returns the caller that asked for the code, if the code is valid.
    pub(super) fn use_code(&self, code: &str, now: Instant) -> Result<Arc<Admission>, Refusal> {
        let issued = self.codes().remove(&SecretHash::of(code));
        match issued {
            Some(issued) if now < issued.until => Ok(issued.admission),
            Some(_) => Err(AuthFailure::Expired.because("it is older than a minute")),
            None => {
                Err(AuthFailure::Unknown
                    .because("the store has not made it, or it was used before"))
            }
        }
    }

    fn codes(&self) -> MutexGuard<'_, HashMap<SecretHash, IssuedCode>> {
        self.codes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> MutexGuard<'_, HashMap<u64, Arc<Session>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the names in a session, whether it is valid or not. `text` is without [`START`].
pub(super) fn names(text: &str) -> CredentialNames {
    let bytes = URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
    let claims = split(&bytes).map(|(claims, _)| serde_json::from_slice::<Session>(claims));
    match claims {
        Some(Ok(session)) => CredentialNames {
            id: session.secret_id().map(|id| id.to_string()),
            sub: Some(session.principal),
            ..CredentialNames::default()
        },
        _ => CredentialNames::default(),
    }
}

/// Splits a session into its claims and its code of authentication.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(bytes.len().checked_sub(MAC_LEN)?)
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions(..)")
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Issued(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::super::rights::Principal;
    use super::*;
    use tenure_core::lease::Owner;

    fn admission(expires: Option<SystemTime>) -> Arc<Admission> {
        admission_of("ada", expires)
    }

    fn admission_of(name: &str, expires: Option<SystemTime>) -> Arc<Admission> {
        let name: Arc<str> = name.into();
        Arc::new(Admission {
            principal: Arc::new(Principal {
                name: Arc::clone(&name),
                grants: Box::default(),
            }),
            owner: Owner::new(&*name),
            proof: Proof::Token("k3v9x2aq".parse().unwrap()),
            expires,
            last_use: None,
        })
    }

    fn failure(found: Result<Arc<Session>, Refusal>) -> AuthFailure {
        found.unwrap_err().failure
    }

    /// Returns a time in whole seconds, as sessions have it.
    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    #[test]
    fn a_session_is_valid_for_twelve_hours_and_for_its_process() {
        let sessions = Sessions::new();
        let issued = sessions.issue(&admission(None), now()).unwrap();
        assert_eq!(issued.expires, now() + LIFE);
        let text = issued.text.strip_prefix(START).unwrap();
        let found = sessions.find(text, now() + LIFE - Duration::from_secs(1));
        let found = found.unwrap();
        assert_eq!(found.principal, "ada");
        assert_eq!(found.secret_id().unwrap().as_str(), "k3v9x2aq");
        let late = sessions.find(text, now() + LIFE);
        assert_eq!(failure(late), AuthFailure::Expired);
        let elsewhere = Sessions::new().find(text, now());
        assert_eq!(failure(elsewhere), AuthFailure::Unknown);
    }

    #[test]
    fn a_session_ends_with_the_credential_from_which_it_was_made() {
        let expires = now() + Duration::from_secs(600);
        let issued = Sessions::new().issue(&admission(Some(expires)), now());
        assert_eq!(issued.unwrap().expires, expires);
    }

    #[test]
    fn a_changed_session_is_refused() {
        let sessions = Sessions::new();
        let issued = sessions.issue(&admission(None), now()).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&issued.text[START.len()..]).unwrap();
        for changed in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[changed] ^= 1;
            let text = URL_SAFE_NO_PAD.encode(bytes);
            let found = sessions.find(&text, now());
            assert_eq!(failure(found), AuthFailure::Unknown, "{changed}");
        }
        for len in 0..bytes.len() {
            let text = URL_SAFE_NO_PAD.encode(&bytes[..len]);
            let found = sessions.find(&text, now());
            assert_eq!(failure(found), AuthFailure::Unknown, "{len}");
        }
        assert_eq!(failure(sessions.find("%", now())), AuthFailure::Unknown);
    }

    #[test]
    fn a_session_that_its_user_ends_is_refused_and_another_one_of_the_same_second_is_not() {
        let sessions = Sessions::new();
        let issue = || sessions.issue(&admission(None), now()).unwrap().text;
        let find = |text: &str| sessions.find(&text[START.len()..], now());
        let (one, other) = (issue(), issue());
        sessions.end(&find(&one).unwrap(), now()).unwrap();
        assert_eq!(failure(find(&one)), AuthFailure::Unknown);
        find(&other).unwrap();
    }

    #[test]
    fn a_principal_ends_a_hundred_sessions_early_and_again_when_these_have_expired() {
        let sessions = Sessions::new();
        let end = |now| {
            let text = sessions.issue(&admission(None), now).unwrap().text;
            sessions.end(&sessions.find(&text[START.len()..], now).unwrap(), now)
        };
        for _ in 0..MAX_ENDED_OF_ONE {
            end(now()).unwrap();
        }
        assert_eq!(end(now()).unwrap_err().code, Code::OverLimit);
        end(now() + LIFE).unwrap();
        assert_eq!(sessions.ended().len(), 1);
    }

    #[test]
    fn a_code_is_valid_once_and_for_a_minute() {
        let (sessions, start) = (Sessions::new(), Instant::now());
        let issue = || sessions.issue_code(&admission(None), start).unwrap().text;
        let code = issue();
        assert_eq!(code.len(), "tnc1_".len() + 43);
        sessions.use_code("tnc1_x", start).unwrap_err();
        sessions.use_code(&code, start).unwrap();
        sessions.use_code(&code, start).unwrap_err();
        let late = issue();
        sessions.use_code(&late, start + CODE_LIFE).unwrap_err();
    }

    #[test]
    fn a_principal_has_a_few_codes_and_takes_none_from_others() {
        let (sessions, start) = (Sessions::new(), Instant::now());
        let issue = |name: &str, now| sessions.issue_code(&admission_of(name, None), now);
        let codes: Vec<_> = (0..MAX_OWN_CODES)
            .map(|_| issue("ada", start).unwrap().text)
            .collect();
        assert_eq!(issue("ada", start).unwrap_err().code, Code::OverLimit);
        issue("bob", start).unwrap();
        // A used code and one whose time is over make room.
        sessions.use_code(&codes[0], start).unwrap();
        issue("ada", start).unwrap();
        assert!(issue("ada", start).is_err());
        issue("ada", start + CODE_LIFE).unwrap();
        assert_eq!(sessions.codes().len(), 1);
        let issued = (0..2 * MAX_CODES).filter(|number| issue(&number.to_string(), start).is_ok());
        assert_eq!(issued.count(), MAX_CODES - 1);
    }

    #[test]
    fn no_debug_text_has_a_key_a_session_or_a_code() {
        let sessions = Sessions::new();
        let issued = sessions.issue(&admission(None), now()).unwrap();
        assert_eq!(
            format!("{sessions:?} {issued:?}"),
            "Sessions(..) Issued(..)"
        );
    }
}

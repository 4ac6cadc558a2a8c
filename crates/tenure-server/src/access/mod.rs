//! Access control: the sender of a request, and the rights of the sender.
//!
//! A *principal* is a name with *grants*. It proves its name with a token, or by a client
//! certificate. The access file lists principals, their grants, the hashes of their tokens, and the
//! authorities that vouch for other principals; the store reads the file again when it changes.
//! `docs/access-control.md` describes the file.
//!
//! ```text
//! request -- credential --> Access --> Caller -- right, target --> allowed or refused
//!                             |
//!                        access file
//! ```

mod bearer_tokens;
mod caller;
mod certificates;
mod checked;
mod exposed;
mod failures;
mod file;
mod jwt;
mod last;
mod proxies;
mod refusal_log;
mod rights;
mod secret;
mod session;
mod source;
mod table;

use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use tenure_core::wire::{Code, Problem};
use tokio::sync::{Notify, watch};

use self::caller::{Admission, Proof};
use self::failures::{AuthFailure, Failures, Refusal, unauthenticated};
use self::jwt::JwtRefusal;
use self::session::Sessions;
use self::source::{AccessSource, Version};
use self::table::Table;

pub use self::bearer_tokens::BearerTokens;
pub(crate) use self::caller::Caller;
pub(crate) use self::certificates::{ClientAuthorities, PresentedCertificate};
pub use self::file::{
    AccessError, AccessFile, ListedPrincipal, ListedSecret, MAX_SECRETS, check_principal_name,
    with_hint,
};
pub use self::jwt::{Issuer, KUBERNETES, KeySource};
pub(crate) use self::last::LastCredential;
pub use self::proxies::TrustedProxies;
pub use self::refusal_log::{CredentialNames, RefusalLog};
pub use self::rights::{AccessGrant, AccessScope, Principal, Role};
pub(crate) use self::rights::{Right, Target};
pub use self::secret::{Secret, SecretError, SecretHash, SecretId};
pub(crate) use self::session::Issued;
use crate::metrics::ReloadStatus;

/// The rules for access to a store. Clones are handles to the same rules.
#[derive(Clone, Debug)]
pub struct Access(Arc<Mode>);

#[derive(Debug)]
enum Mode {
    /// Access of every client to everything. With hosts, requests must name an IP address,
    /// `localhost` or one of these hosts.
    Open {
        hosts: Option<Box<[String]>>,
    },
    Guarded(Box<Guarded>),
}

/// The access by the rules of a file.
#[derive(Debug)]
struct Guarded {
    source: AccessSource,
    table: RwLock<Arc<Table>>,
    /// The versions of the files that were read last, valid or not.
    versions: Mutex<Versions>,
    /// The number of the rules in force. It grows with each change that may end the rights of a
    /// credential: of the table, of the keys of an authority, or of the sessions.
    rules: AtomicU64,
    /// The channel that notifies waiting requests of such a change.
    changes: watch::Sender<()>,
    failures: Failures,
    /// The last reload of the file.
    reload: ReloadStatus,
    /// The notification that new keys of authorities are needed.
    keys_wanted: Notify,
    sessions: Sessions,
}

/// The versions of the access file, and of the file with the authorities of client certificates.
#[derive(Debug, PartialEq, Eq)]
struct Versions {
    file: Version,
    certificates: Option<Version>,
}

impl Access {
    /// Allows every request of every client, and accepts any host name.
    #[must_use]
    pub fn anonymous() -> Self {
        Self(Arc::new(Mode::Open { hosts: None }))
    }

    /// Allows every request of every client. Requests must name the store by an IP address, by
    /// `localhost`, or by one of these hosts.
    ///
    /// The check stops a page that a browser shows on this machine. The author of the page can make
    /// the name of the page's host resolve to this store (DNS rebinding), but the requests of the
    /// page then contain that name.
    #[must_use]
    pub fn anonymous_at(hosts: impl IntoIterator<Item = String>) -> Self {
        let hosts = Some(hosts.into_iter().collect());
        Self(Arc::new(Mode::Open { hosts }))
    }

    /// Creates the rules for access from this file.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub fn open(path: impl Into<std::path::PathBuf>) -> Result<Self, AccessError> {
        let source = AccessSource::new(path.into());
        let (text, file_version) = source.read()?;
        let file = AccessFile::parse(&text, source.path())?;
        let (authorities, certificates) = file.client_authorities()?.unzip();
        let versions = Versions {
            file: file_version,
            certificates,
        };
        let table = Table::new(file.into(), authorities.map(Arc::new));
        let guarded = Guarded {
            source,
            table: RwLock::new(Arc::new(table)),
            versions: Mutex::new(versions),
            rules: AtomicU64::default(),
            changes: watch::Sender::new(()),
            failures: Failures::default(),
            reload: ReloadStatus::read_now(),
            keys_wanted: Notify::new(),
            sessions: Sessions::new(),
        };
        Ok(Self(Arc::new(Mode::Guarded(Box::new(guarded)))))
    }

    /// Reads the files again if the access file, or the file with the authorities of client
    /// certificates, has changed since it was read last. Returns whether new rules are in force.
    /// Waiting requests and streams end within a moment if they are no longer allowed.
    ///
    /// # Errors
    ///
    /// [`AccessError::Certificates`]: the previous authorities stay in force, and the new rules of
    /// the access file are in force, because a mistake in one file must not delay a revocation in
    /// the other. With all other errors the previous rules stay in force. The same wrong file is
    /// reported once.
    pub fn reload(&self) -> Result<bool, AccessError> {
        match &*self.0 {
            Mode::Open { .. } => Ok(false),
            Mode::Guarded(guarded) => {
                let reloaded = guarded.reload();
                // The file is not read if it has not changed, and then its status does not change.
                if !matches!(reloaded, Ok(false)) {
                    guarded.reload.record(reloaded.is_ok());
                }
                reloaded
            }
        }
    }

    /// Returns the authorities whose tokens are accepted. Their keys must be put in force with
    /// [`Access::replace_keys`].
    #[must_use]
    pub fn issuers(&self) -> Vec<Issuer> {
        match &*self.0 {
            Mode::Open { .. } => Vec::new(),
            Mode::Guarded(guarded) => guarded.table().file().issuers.clone(),
        }
    }

    /// Puts the keys of one of the [issuers](Access::issuers) in force: a JSON Web Key Set, and the
    /// claim `iss` of its tokens if the access file does not name the claim. Returns whether the
    /// keys differ from the previous keys. Tokens of removed keys are refused from then on, and
    /// waiting requests and streams of these tokens end within a moment.
    ///
    /// # Errors
    ///
    /// The key set is wrong, or the access file no longer contains this issuer. The previous keys
    /// stay in force.
    pub fn replace_keys(
        &self,
        issuer: &Issuer,
        key_set: &str,
        claim: Option<&str>,
    ) -> Result<bool, String> {
        match &*self.0 {
            Mode::Open { .. } => Err("the store has no access file".into()),
            Mode::Guarded(guarded) => {
                // A reload would copy the keys before, and a removed key would be in force again.
                let _no_reload = guarded.versions();
                let has_changed = guarded.table().replace_keys(issuer, key_set, claim)?;
                if has_changed {
                    guarded.failures.forget_refused();
                    guarded.rules_changed();
                }
                Ok(has_changed)
            }
        }
    }

    /// Notes that the keys of one of the [issuers](Access::issuers) could not be fetched, for the
    /// metrics.
    pub fn note_failed_fetch(&self, issuer: &Issuer) {
        if let Mode::Guarded(guarded) = &*self.0 {
            guarded.table().note_failed_fetch(issuer);
        }
    }

    /// Returns whether clients are asked for certificates.
    #[must_use]
    pub fn asks_for_certificates(&self) -> bool {
        self.client_authorities().is_some()
    }

    /// Returns the authorities of client certificates.
    pub(crate) fn client_authorities(&self) -> Option<Arc<ClientAuthorities>> {
        match &*self.0 {
            Mode::Open { .. } => None,
            Mode::Guarded(guarded) => guarded.table().certificates().cloned(),
        }
    }

    /// Completes when a token has an unknown key, or the access file has changed. The keys of the
    /// authorities should then be fetched.
    pub async fn keys_wanted(&self) {
        match &*self.0 {
            Mode::Open { .. } => std::future::pending().await,
            Mode::Guarded(guarded) => guarded.keys_wanted.notified().await,
        }
    }

    /// Returns whether the rules come from an access file.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        matches!(&*self.0, Mode::Guarded(_))
    }

    /// Returns the host names that requests may contain, if host names are checked.
    pub(crate) fn hosts(&self) -> Option<&[String]> {
        match &*self.0 {
            Mode::Open { hosts } => hosts.as_deref(),
            Mode::Guarded(_) => None,
        }
    }

    /// Returns the sender of a request with these headers.
    ///
    /// # Errors
    ///
    /// [`Failures::refuse`]. A valid credential is never refused.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        client: Option<IpAddr>,
    ) -> Result<Caller, Problem> {
        let guarded = match &*self.0 {
            Mode::Open { .. } => return Ok(Caller::Anyone(client)),
            Mode::Guarded(guarded) => guarded,
        };
        // A request without a credential does not guess one, so it is not counted.
        if !headers.contains_key(AUTHORIZATION) {
            guarded.failures.counts.add(AuthFailure::Missing);
            return Err(unauthenticated());
        }
        let Some(token) = bearer(headers) else {
            let check = "the header Authorization is not that of one bearer token";
            let refusal = AuthFailure::Malformed.because(check);
            return Err(guarded
                .failures
                .refuse(&refusal, client, "unknown", Default::default));
        };
        let credential = Credential::of(token);
        let caller = guarded.find(&credential, client);
        caller.map_err(|refusal| {
            let names = || credential.names();
            guarded
                .failures
                .refuse(&refusal, client, credential.kind(), names)
        })
    }

    /// Like [`Access::authenticate`], for a request on this connection. If the connection repeats its
    /// credential while the same rules are in force, only its end is checked again.
    pub(crate) fn authenticate_on(
        &self,
        connection: &LastCredential,
        headers: &HeaderMap,
        client: Option<IpAddr>,
    ) -> Result<Caller, Problem> {
        let (Mode::Guarded(guarded), Some(header)) = (&*self.0, only_header(headers)) else {
            return self.authenticate(headers, client);
        };
        // Read before the check: the caller by earlier rules must not pass for one by later rules.
        let rules = guarded.rules();
        if let Some(admission) = connection.find(header, rules) {
            let now = SystemTime::now();
            if admission.is_current(now) {
                admission.note_use(now);
                return Ok(Caller::Admitted(admission));
            }
        }
        let caller = self.authenticate(headers, client)?;
        if let Caller::Admitted(admission) = &caller {
            connection.remember(header, rules, admission);
        }
        Ok(caller)
    }

    /// Returns the sender of a request without the header `Authorization`, identified by the
    /// certificate of its connection.
    ///
    /// # Errors
    ///
    /// The errors of [`Access::authenticate`].
    pub(crate) fn authenticate_certificate(
        &self,
        certificate: &PresentedCertificate,
        client: Option<IpAddr>,
    ) -> Result<Caller, Problem> {
        let guarded = match &*self.0 {
            Mode::Open { .. } => return Ok(Caller::Anyone(client)),
            Mode::Guarded(guarded) => guarded,
        };
        let rules = guarded.rules();
        let table = guarded.table();
        let caller = table.find_certificate(certificate, rules, SystemTime::now());
        caller.map_err(|refusal| {
            let names = || certificate.names();
            guarded
                .failures
                .refuse(&refusal, client, "certificate", names)
        })
    }

    /// Checks a right again by the rules that are in force now, for requests that took time since
    /// the first check. Returns the caller with its present grants.
    pub(crate) fn check_again(
        &self,
        caller: &Caller,
        right: Right,
        target: Target<'_>,
    ) -> Result<Caller, Problem> {
        let current = match (&*self.0, caller) {
            (Mode::Guarded(guarded), Caller::Admitted(admission)) => guarded.current(admission),
            _ => Some(caller.clone()),
        };
        let current = current.filter(|current| current.may(right, target));
        current.ok_or_else(|| caller.forbidden(right, target))
    }

    /// Completes when the caller's credential is no longer valid, or when the caller's grants no
    /// longer allow the request.
    pub(crate) async fn refused(&self, caller: &Caller, right: Right, target: Target<'_>) {
        let (Mode::Guarded(guarded), Caller::Admitted(admission)) = (&*self.0, caller) else {
            return std::future::pending().await;
        };
        let mut changes = guarded.changes.subscribe();
        loop {
            let now = SystemTime::now();
            let current = self.check_again(caller, right, target);
            let is_allowed = current.is_ok_and(|current| {
                // A stream of many leases is filtered by the grants at its beginning.
                !matches!(target, Target::Namespace(_) | Target::Anywhere)
                    || current.has_grants_of(admission)
            });
            if !is_allowed {
                return;
            }
            let expired = async {
                match admission.expires {
                    // The wait is at most an hour, because the wall clock may be set.
                    Some(expires) => {
                        let left = expires.duration_since(now).unwrap_or_default();
                        tokio::time::sleep(left.min(std::time::Duration::from_secs(3600))).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = changes.changed() => {}
                () = expired => {}
            }
        }
    }

    /// Issues a session with the rights of this caller.
    ///
    /// # Errors
    ///
    /// The store has no access control, or the caller has sent a session.
    pub(crate) fn issue_session(&self, caller: &Caller) -> Result<Issued, Problem> {
        let (guarded, admission) = self.admitted(caller)?;
        let issued = guarded.sessions.issue(admission, SystemTime::now());
        issued.ok_or_else(|| caller.forbidden(Right::OwnCredential, Target::Store))
    }

    /// Ends the session that the caller has sent. Its waiting requests and streams end within a
    /// moment.
    ///
    /// # Errors
    ///
    /// The caller has not sent a session, or too many sessions were ended early.
    pub(crate) fn end_session(&self, caller: &Caller) -> Result<(), Problem> {
        let (guarded, admission) = self.admitted(caller)?;
        let Proof::Session(session) = &admission.proof else {
            return Err(caller.forbidden(Right::Session, Target::Store));
        };
        guarded.sessions.end(session, SystemTime::now())?;
        guarded.rules_changed();
        Ok(())
    }

    /// Issues a one-time code for a session with the rights of this caller.
    ///
    /// # Errors
    ///
    /// The store has no access control, or too many codes are valid.
    pub(crate) fn issue_code(&self, caller: &Caller) -> Result<Issued, Problem> {
        let (guarded, admission) = self.admitted(caller)?;
        guarded.sessions.issue_code(admission, Instant::now())
    }

    /// Uses a code up, and returns the caller that asked for it, with its present grants.
    ///
    /// # Errors
    ///
    /// [`Failures::refuse`]: a wrong code counts as a wrong credential.
    pub(crate) fn use_code(&self, code: &str, client: Option<IpAddr>) -> Result<Caller, Problem> {
        let Mode::Guarded(guarded) = &*self.0 else {
            return Err(no_access_control());
        };
        let caller = guarded
            .sessions
            .use_code(code, Instant::now())
            .and_then(|admission| {
                let gone = "the credential from which it was made is no longer accepted";
                let current = guarded.current(&admission);
                current.ok_or_else(|| AuthFailure::Unknown.because(gone))
            });
        caller.map_err(|refusal| {
            guarded
                .failures
                .refuse(&refusal, client, "one-time code", Default::default)
        })
    }

    fn admitted<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> Result<(&'a Guarded, &'a Arc<Admission>), Problem> {
        match (&*self.0, caller) {
            (Mode::Open { .. }, _) => Err(no_access_control()),
            (Mode::Guarded(guarded), Caller::Admitted(admission)) => Ok((guarded, admission)),
            (Mode::Guarded(_), Caller::Anyone(_) | Caller::Unknown) => Err(unauthenticated()),
        }
    }

    /// Calls the function with the principals of the file, and with the time at which each token
    /// was last used since the start.
    pub(crate) fn with_principals<T>(
        &self,
        view: impl FnOnce(&[ListedPrincipal], &dyn Fn(SecretId) -> Option<SystemTime>) -> T,
    ) -> Option<T> {
        let Mode::Guarded(guarded) = &*self.0 else {
            return None;
        };
        let table = guarded.table();
        Some(view(table.file().principals(), &|id| table.last_used(id)))
    }
}

impl Guarded {
    /// Returns the caller with this credential, if the credential is valid now.
    fn find(&self, credential: &Credential<'_>, client: Option<IpAddr>) -> Result<Caller, Refusal> {
        let (table, now) = (self.table(), SystemTime::now());
        match *credential {
            Credential::Session(text) => {
                let session = self.sessions.find(text, now)?;
                let admission = table.find_session(&session, now);
                let gone = "the credential from which it was made is no longer accepted";
                let admission = admission.ok_or_else(|| AuthFailure::Unknown.because(gone))?;
                Ok(Caller::Admitted(admission))
            }
            Credential::Token(token) => table.find(token, now),
            Credential::Jwt(token) => {
                let found = table.find_jwt(token, client, &self.failures, now);
                if matches!(found, Err(JwtRefusal::UnknownKey)) {
                    self.keys_wanted.notify_one();
                }
                Ok(found?)
            }
        }
    }

    /// Returns the caller with its present grants, if its proof is still valid.
    fn current(&self, admission: &Admission) -> Option<Caller> {
        if let Proof::Session(session) = &admission.proof
            && self.sessions.has_ended(session)
        {
            return None;
        }
        let current = self.table().current(admission, SystemTime::now());
        current.map(Caller::Admitted)
    }

    /// Returns the number of the rules in force. Rules that were read before may be earlier ones.
    fn rules(&self) -> u64 {
        self.rules.load(Ordering::Acquire)
    }

    /// Notes that other rules are in force.
    fn rules_changed(&self) {
        self.rules.fetch_add(1, Ordering::Release);
        self.changes.send_replace(());
    }

    fn table(&self) -> Arc<Table> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&table)
    }

    /// Waits for a reload that runs, and holds further ones back.
    fn versions(&self) -> MutexGuard<'_, Versions> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reload(&self) -> Result<bool, AccessError> {
        let mut versions = self.versions();
        let before = self.table();
        let mut file = Arc::clone(before.file());
        let present = Versions {
            file: self.source.version(),
            certificates: file.certificates_version(),
        };
        if present == *versions {
            return Ok(false);
        }
        if present.file != versions.file {
            // A wrong file is not read again until it changes again.
            versions.file = present.file;
            let (text, read) = self.source.read()?;
            versions.file = read;
            file = AccessFile::parse(&text, self.source.path())?.into();
        }
        versions.certificates = file.certificates_version();
        let (authorities, error) = match file.client_authorities() {
            Ok(Some((authorities, read))) => {
                versions.certificates = Some(read);
                (Some(authorities.following(before.certificates())), None)
            }
            Ok(None) => (None, None),
            Err(error) => (before.certificates().cloned(), Some(error)),
        };
        let table = Table::new(file, authorities).following(&before);
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        self.failures.forget_refused();
        self.rules_changed();
        self.keys_wanted.notify_one();
        error.map_or(Ok(true), Err)
    }
}

/// The credential in the header `Authorization`.
enum Credential<'a> {
    /// A session, without [`session::START`].
    Session(&'a str),
    Jwt(&'a str),
    Token(&'a str),
}

impl<'a> Credential<'a> {
    fn of(text: &'a str) -> Self {
        match text.strip_prefix(session::START) {
            Some(session) => Self::Session(session),
            None if text.contains('.') => Self::Jwt(text),
            None => Self::Token(text),
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Jwt(_) => "jwt",
            Self::Token(_) => "token",
        }
    }

    /// Returns the names in the credential, whether it is valid or not.
    fn names(&self) -> CredentialNames {
        match self {
            Self::Session(text) => session::names(text),
            Self::Jwt(token) => jwt::names(token),
            Self::Token(token) => CredentialNames {
                id: SecretId::of_token(token).map(|id| id.to_string()),
                ..CredentialNames::default()
            },
        }
    }
}

/// Returns the answer to a request for a session of a store that needs none.
fn no_access_control() -> Problem {
    let detail = "the store has no access control, so it has no sessions: every client may send \
                  every request";
    Problem::new(Code::Malformed, detail)
}

fn only_header(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    values.next().filter(|_| values.next().is_none())
}

/// Returns the token in the header `Authorization`, if there is exactly one such header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = only_header(headers)?.to_str().ok()?.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_start_matches(' '))
}

/// Reads a file with public keys or certificates that decide who is admitted, if no other user can
/// change the file.
///
/// # Errors
///
/// [`AccessError`].
pub fn read_keys(path: &Path) -> Result<String, AccessError> {
    Ok(AccessSource::public(path.into()).read()?.0)
}

/// Checks a JSON Web Key Set.
///
/// # Errors
///
/// The reason why the set is not one.
pub fn check_key_set(key_set: &str) -> Result<(), String> {
    jwt::parse_keys(key_set, "").map(drop)
}

/// Checks an access file as the store does at its start.
///
/// # Errors
///
/// [`AccessError`].
pub fn check_file(path: &Path) -> Result<AccessFile, AccessError> {
    let (text, _) = AccessSource::new(path.into()).read()?;
    let file = AccessFile::parse(&text, path)?;
    file.client_authorities()?;
    Ok(file)
}

#[cfg(test)]
mod tests;

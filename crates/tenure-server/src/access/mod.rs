//! Access control: who sends a request, and what the sender may do.
//!
//! A *principal* is a name with *grants*. It proves its name with a token. The access file lists
//! principals, their grants, and the hashes of their tokens; the store reads the file again when it
//! changes. `docs/access-control.md` describes the file.
//!
//! ```text
//! request -- credential --> Access --> Caller -- right, target --> allowed or refused
//!                             |
//!                        access file
//! ```

mod caller;
mod failures;
mod file;
mod jwt;
mod rights;
mod secret;
mod source;
mod table;

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use tenure_core::wire::{Code, Problem};
use tokio::sync::{Notify, watch};

use self::failures::Failures;
use self::jwt::JwtRefusal;
use self::source::{AccessSource, Version};
use self::table::Table;

pub(crate) use self::caller::Caller;
pub(crate) use self::failures::Network;
pub use self::file::{
    AccessError, AccessFile, ListedPrincipal, ListedSecret, MAX_SECRETS, check_principal_name,
};
pub use self::jwt::{Issuer, KUBERNETES, KeySource};
pub use self::rights::{AccessGrant, Principal, Role, Scope};
pub(crate) use self::rights::{Right, Target};
pub use self::secret::{Secret, SecretError, SecretHash, SecretId};
pub use self::source::{is_guarded, mark_guarded};

/// Who may send requests to a store. Clones are handles to the same rules.
#[derive(Clone, Debug)]
pub struct Access(Arc<Mode>);

#[derive(Debug)]
enum Mode {
    /// Everybody may do everything. With hosts, requests must name an IP address, `localhost` or
    /// one of these hosts.
    Open {
        hosts: Option<Box<[String]>>,
    },
    Guarded(Box<Guarded>),
}

/// Access by the rules of a file.
#[derive(Debug)]
struct Guarded {
    source: AccessSource,
    table: RwLock<Arc<Table>>,
    /// The content of the file that was read last, right or wrong.
    version: Mutex<Version>,
    /// Notifies requests that wait when the table changes.
    changes: watch::Sender<()>,
    failures: Failures,
    /// Asks for new keys of authorities.
    keys_wanted: Notify,
}

impl Access {
    /// Everybody who reaches the store may do everything, and any host name is accepted.
    #[must_use]
    pub fn anonymous() -> Self {
        Self(Arc::new(Mode::Open { hosts: None }))
    }

    /// Everybody who reaches the store may do everything. Requests must name the store by an IP
    /// address, by `localhost`, or by one of these hosts.
    ///
    /// The check stops a page that a browser shows on this machine: its author can let the name of
    /// the page's host resolve to this store (DNS rebinding), but a request then has that name.
    #[must_use]
    pub fn anonymous_at(hosts: impl IntoIterator<Item = String>) -> Self {
        let hosts = Some(hosts.into_iter().collect());
        Self(Arc::new(Mode::Open { hosts }))
    }

    /// Access by the rules of this file.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub fn open(path: impl Into<std::path::PathBuf>) -> Result<Self, AccessError> {
        let source = AccessSource::new(path.into());
        let (text, version) = source.read()?;
        let table = Table::new(AccessFile::parse(&text, source.path())?);
        Ok(Self(Arc::new(Mode::Guarded(Box::new(Guarded {
            source,
            table: RwLock::new(Arc::new(table)),
            version: Mutex::new(version),
            changes: watch::Sender::new(()),
            failures: Failures::default(),
            keys_wanted: Notify::new(),
        })))))
    }

    /// Reads the file again if it has changed since it was read last. Returns whether new rules are
    /// in force. Requests that wait and streams end within a moment if they are no longer allowed.
    ///
    /// # Errors
    ///
    /// [`AccessError`]: the rules before stay in force. The same wrong file is reported once.
    pub fn reload(&self) -> Result<bool, AccessError> {
        match &*self.0 {
            Mode::Open { .. } => Ok(false),
            Mode::Guarded(guarded) => guarded.reload(),
        }
    }

    /// The authorities whose tokens are accepted. Their keys must be put in force with
    /// [`Access::replace_keys`].
    #[must_use]
    pub fn issuers(&self) -> Vec<Issuer> {
        match &*self.0 {
            Mode::Open { .. } => Vec::new(),
            Mode::Guarded(guarded) => guarded.table().file().issuers.clone(),
        }
    }

    /// Puts the keys of an authority in force: a JSON Web Key Set, and the claim `iss` of its tokens
    /// if the access file does not name it.
    ///
    /// # Errors
    ///
    /// The key set is wrong: the keys before stay in force.
    pub fn replace_keys(
        &self,
        name: &str,
        key_set: &str,
        issuer: Option<&str>,
    ) -> Result<(), String> {
        match &*self.0 {
            Mode::Open { .. } => Err("the store has no access file".into()),
            Mode::Guarded(guarded) => {
                guarded.table().replace_keys(name, key_set, issuer)?;
                guarded.failures.forget_refused();
                Ok(())
            }
        }
    }

    /// Completes when a token has an unknown key, or the access file has changed: then the keys of the
    /// authorities should be fetched.
    pub async fn keys_wanted(&self) {
        match &*self.0 {
            Mode::Open { .. } => std::future::pending().await,
            Mode::Guarded(guarded) => guarded.keys_wanted.notified().await,
        }
    }

    /// Whether a file says who may do what.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        matches!(&*self.0, Mode::Guarded(_))
    }

    /// The hosts that requests may name, if they are checked.
    pub(crate) fn hosts(&self) -> Option<&[String]> {
        match &*self.0 {
            Mode::Open { hosts } => hosts.as_deref(),
            Mode::Guarded(_) => None,
        }
    }

    /// The sender of a request with these headers.
    ///
    /// # Errors
    ///
    /// [`Code::Unauthenticated`] with one text for all causes; [`Code::OverLimit`] if the address
    /// has sent too many wrong credentials. A valid credential is never refused.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        client: Option<IpAddr>,
    ) -> Result<Caller, Problem> {
        let guarded = match &*self.0 {
            Mode::Open { .. } => return Ok(Caller::Anyone),
            Mode::Guarded(guarded) => guarded,
        };
        // A request without a credential is no guess, so it is not counted.
        if !headers.contains_key(AUTHORIZATION) {
            return Err(unauthenticated());
        }
        if let Some(caller) = bearer(headers).and_then(|token| guarded.find(token, client)) {
            return Ok(caller);
        }
        let is_over = client.is_some_and(|client| !guarded.failures.admit(client, Instant::now()));
        Err(if is_over {
            let detail =
                "too many wrong credentials came from this address; valid ones are accepted";
            Problem::new(Code::OverLimit, detail)
        } else {
            unauthenticated()
        })
    }

    /// Checks a right again, by the rules that are in force now: for requests that took time since
    /// the first check. Returns the caller with its present grants.
    pub(crate) fn check_again(
        &self,
        caller: &Caller,
        right: Right,
        target: Target<'_>,
    ) -> Result<Caller, Problem> {
        let current = match (&*self.0, caller) {
            (Mode::Guarded(guarded), Caller::Admitted(admission)) => {
                guarded.table().refresh(admission, SystemTime::now())
            }
            _ => Some(caller.clone()),
        };
        let current = current.filter(|current| current.may(right, target));
        current.ok_or_else(|| caller.forbidden(right, target))
    }

    /// Completes when the caller's credential is no longer valid, or its grants no longer allow
    /// this.
    pub(crate) async fn refused(&self, caller: &Caller, right: Right, target: Target<'_>) {
        let (Mode::Guarded(guarded), Caller::Admitted(admission)) = (&*self.0, caller) else {
            return std::future::pending().await;
        };
        let mut changes = guarded.changes.subscribe();
        loop {
            let now = SystemTime::now();
            let current = self.check_again(caller, right, target);
            let is_allowed = current.is_ok_and(|current| {
                // A stream of a namespace is filtered by the grants that it began with.
                !matches!(target, Target::Namespace(_)) || current.has_grants_of(admission)
            });
            if !is_allowed {
                return;
            }
            let expired = async {
                match admission.expires {
                    // At most an hour, because the wall clock may be set.
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

    /// The principals of the file, and when each token was last used since the start.
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
    /// The caller that has this credential, if it is valid now.
    fn find(&self, token: &str, client: Option<IpAddr>) -> Option<Caller> {
        let (table, now) = (self.table(), SystemTime::now());
        if !token.contains('.') {
            return table.find(token, now);
        }
        let hash = SecretHash::of(token);
        if let Some(caller) = table.find_checked(&hash, now) {
            return Some(caller);
        }
        let (failures, instant) = (&self.failures, Instant::now());
        let may_check = !failures.is_refused(&hash, instant)
            && client.is_none_or(|client| failures.may_check(client, instant));
        if !may_check {
            return None;
        }
        match table.check(token, hash.clone(), now) {
            Ok(caller) => Some(caller),
            Err(JwtRefusal::UnknownKey) => {
                self.keys_wanted.notify_one();
                None
            }
            Err(JwtRefusal::Invalid) => {
                failures.note_refused(hash, instant);
                None
            }
        }
    }

    fn table(&self) -> Arc<Table> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&table)
    }

    fn reload(&self) -> Result<bool, AccessError> {
        let mut version = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        let present = self.source.version();
        if present == *version {
            return Ok(false);
        }
        // A wrong file is not read again until it changes again.
        *version = present;
        let (text, read) = self.source.read()?;
        *version = read;
        let file = AccessFile::parse(&text, self.source.path())?;
        let table = Table::new(file).following(&self.table());
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        self.failures.forget_refused();
        self.changes.send_replace(());
        self.keys_wanted.notify_one();
        Ok(true)
    }
}

/// The token of the header `Authorization`, of which there must be one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_start_matches(' '))
}

/// One text for a missing, unknown, wrong, expired or revoked credential, so that the answer tells
/// nothing.
fn unauthenticated() -> Problem {
    Problem::new(
        Code::Unauthenticated,
        "send a valid token in the header Authorization: Bearer TOKEN",
    )
}

/// Checks an access file as the store does at its start.
///
/// # Errors
///
/// [`AccessError`].
pub fn check_file(path: &Path) -> Result<AccessFile, AccessError> {
    let (text, _) = AccessSource::new(path.into()).read()?;
    AccessFile::parse(&text, path)
}

#[cfg(test)]
mod tests;

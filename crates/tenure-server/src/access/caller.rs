//! The sender of a request, as identified by the store.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tenure_core::lease::Owner;
use tenure_core::wire::{Code, Problem};

use super::certificates::VerifiedCertificate;
use super::jwt::{Identity, Key};
use super::rights::{self, CredentialKind, Principal, Right, Role, Target};
use super::secret::SecretId;
use super::session::Session;
use crate::shares::Tenant;

/// The sender of a request. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// The store has no access control: every client may send every request, from this address if
    /// it is known.
    Anyone(Option<IpAddr>),
    /// The request needs no credential, and no credential was read.
    Unknown,
    /// A principal with a valid credential.
    Admitted(Arc<Admission>),
}

/// A principal, and the credential with which the principal was admitted.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) principal: Arc<Principal>,
    /// The name of the principal. The principal owns the leases that it acquires.
    pub(crate) owner: Owner,
    pub(crate) proof: Proof,
    /// The time from which on the credential is refused.
    pub(crate) expires: Option<SystemTime>,
    /// The last use of the token, or of the token from which the session was made.
    pub(super) last_use: Option<Arc<LastUse>>,
}

/// The time of the last use of a token, in seconds since 1970; zero if the token was not used since
/// the start.
#[derive(Debug, Default)]
pub(super) struct LastUse(AtomicU64);

/// A valid credential, without its secret part.
#[derive(Clone, Debug)]
pub(crate) enum Proof {
    Token(SecretId),
    /// A JSON web token of this identity, which this key has signed.
    Identity(Identity, Arc<Key>),
    Certificate(Arc<VerifiedCertificate>),
    /// A session that was made from one of the others.
    Session(Arc<Session>),
}

impl Admission {
    pub(super) fn is_current(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    pub(super) fn note_use(&self, now: SystemTime) {
        if let Some(last_use) = &self.last_use {
            let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            last_use.set(seconds);
        }
    }
}

impl LastUse {
    /// Most renewals within a second find the value up to date. They do not write, so the cache line
    /// stays with the other processors.
    pub(super) fn set(&self, seconds: u64) {
        if self.seconds() != seconds {
            self.0.store(seconds, Ordering::Relaxed);
        }
    }

    pub(super) fn seconds(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Caller {
    /// Returns the name of the principal.
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        match self {
            Self::Admitted(admission) => Some(&admission.principal.name),
            Self::Anyone(_) | Self::Unknown => None,
        }
    }

    pub(super) fn has_grants_of(&self, other: &Admission) -> bool {
        let Self::Admitted(admission) = self else {
            return false;
        };
        admission.principal.grants == other.principal.grants
    }

    /// Returns the owner of the leases that the caller acquires.
    pub(crate) fn owner(&self) -> Option<&Owner> {
        match self {
            Self::Admitted(admission) => Some(&admission.owner),
            Self::Anyone(_) | Self::Unknown => None,
        }
    }

    /// Returns the tenant whose shares the requests of the caller use.
    pub(crate) fn tenant(&self) -> Tenant {
        let address = match self {
            Self::Anyone(address) => *address,
            Self::Unknown | Self::Admitted(_) => None,
        };
        Tenant::of(self.owner(), address)
    }

    pub(crate) fn may(&self, right: Right, target: Target<'_>) -> bool {
        match self {
            Self::Anyone(_) => true,
            Self::Unknown => rights::is_for(right, CredentialKind::None),
            Self::Admitted(admission) => {
                let kind = match self.is_session() {
                    true => CredentialKind::Session,
                    false => CredentialKind::Own,
                };
                rights::is_for(right, kind)
                    && rights::is_allowed(&admission.principal.grants, right, target)
            }
        }
    }

    fn is_session(&self) -> bool {
        matches!(self, Self::Admitted(admission) if matches!(admission.proof, Proof::Session(_)))
    }

    /// Refuses a request that the caller's grants do not allow.
    ///
    /// The answer depends on names and grants only, so it does not reveal whether a lease exists.
    pub(crate) fn check(&self, right: Right, target: Target<'_>) -> Result<(), Problem> {
        if self.may(right, target) {
            return Ok(());
        }
        Err(self.forbidden(right, target))
    }

    /// Returns the prefixes of the lease names in a namespace that the caller may read; see
    /// [`rights::prefixes`].
    pub(crate) fn readable(&self, namespace: &str) -> Vec<&str> {
        match self {
            Self::Anyone(_) => vec![""],
            Self::Unknown => Vec::new(),
            Self::Admitted(admission) => {
                rights::prefixes(&admission.principal.grants, Role::Read, namespace)
            }
        }
    }

    /// Creates the answer to a caller without the right. The answer contains only names from the
    /// request, and the caller's own name.
    pub(crate) fn forbidden(&self, right: Right, target: Target<'_>) -> Problem {
        let name = self.name().map_or("", |name| name);
        let needed = match right {
            Right::OwnCredential | Right::CodeOrOwnCredential if self.is_session() => {
                let detail = format!(
                    "a session cannot make a session or a code: send the credential of {name:?} \
                     from which the session was made"
                );
                return Problem::new(Code::Forbidden, detail);
            }
            Right::Open | Right::Credential | Right::OwnCredential | Right::CodeOrOwnCredential => {
                "a valid credential".to_owned()
            }
            Right::Session => "a session".to_owned(),
            Right::Role(role) => format!("the role {role}"),
            Right::Either(one, other) => format!("the role {one} or {other}"),
        };
        let place = match target {
            Target::Store => "for all namespaces".to_owned(),
            Target::Namespace(namespace) => format!("in namespace {namespace}"),
            Target::Lease(namespace, lease) => format!("for {namespace}/{lease}"),
            Target::Anywhere => "for some lease".to_owned(),
        };
        Problem::new(
            Code::Forbidden,
            format!("this needs {needed} {place}, which the principal {name:?} does not have"),
        )
    }
}

impl Proof {
    /// Returns the kind of the credential, as the API shows it.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Token(_) => "token",
            Self::Identity(..) => "jwt",
            Self::Certificate(_) => "certificate",
            Self::Session(_) => "session",
        }
    }

    /// Returns the id of the token, or of the token from which the session was made.
    pub(crate) fn secret_id(&self) -> Option<SecretId> {
        match self {
            Self::Token(id) => Some(*id),
            Self::Session(session) => session.secret_id(),
            Self::Identity(..) | Self::Certificate(_) => None,
        }
    }
}

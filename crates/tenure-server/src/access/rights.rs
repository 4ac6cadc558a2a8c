//! Rights: a pure function of the grants of a principal.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tenure_core::Name;

/// The operations that a grant allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// The right to read leases, their history and their events.
    Read,
    /// The right to lead: to acquire, renew, change, release, and hand over the principal's own
    /// lease. It includes `read`.
    Candidate,
    /// The right to break, hand over and delete any lease. It includes `read`.
    Operator,
    /// The right to read metrics, and nothing else.
    Metrics,
    /// All rights of the other roles.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Candidate,
        Self::Operator,
        Self::Metrics,
        Self::Admin,
    ];

    /// Returns the name of the role in the access file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Candidate => "candidate",
            Self::Operator => "operator",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        }
    }

    const fn includes(self, other: Self) -> bool {
        match other {
            Self::Read => !matches!(self, Self::Metrics),
            Self::Candidate => matches!(self, Self::Candidate | Self::Admin),
            Self::Operator => matches!(self, Self::Operator | Self::Admin),
            Self::Metrics => matches!(self, Self::Metrics | Self::Admin),
            Self::Admin => matches!(self, Self::Admin),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let role = Self::ALL.into_iter().find(|role| role.as_str() == text);
        role.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!("a role is one of {names}")
        })
    }
}

/// The leases to which a grant applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessScope {
    namespace: Option<Name>,
    prefix: Box<str>,
}

impl AccessScope {
    /// Creates the scope of all leases of the store.
    #[must_use]
    pub fn all() -> Self {
        Self {
            namespace: None,
            prefix: "".into(),
        }
    }

    /// Creates the scope of the leases in a namespace (`None`: in all namespaces) whose names begin
    /// with `prefix`.
    #[must_use]
    pub fn new(namespace: Option<Name>, prefix: &str) -> Self {
        Self {
            namespace,
            prefix: prefix.into(),
        }
    }

    /// Returns the namespace; `None` means all namespaces.
    #[must_use]
    pub const fn namespace(&self) -> Option<&Name> {
        self.namespace.as_ref()
    }

    /// Returns the beginning of the names of the leases.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    fn has_namespace(&self, namespace: &str) -> bool {
        let own = self.namespace.as_ref();
        own.is_none_or(|own| own.as_str() == namespace)
    }

    /// Returns whether the scope contains the whole target, or with [`Target::Namespace`] and
    /// [`Target::Anywhere`] a part of it.
    fn covers(&self, target: Target<'_>) -> bool {
        match target {
            Target::Store => self.namespace.is_none() && self.prefix.is_empty(),
            Target::Namespace(namespace) => self.has_namespace(namespace),
            Target::Lease(namespace, lease) => {
                self.has_namespace(namespace) && lease.starts_with(&*self.prefix)
            }
            Target::Anywhere => true,
        }
    }
}

/// A role for some leases. The rights of several grants add up; no grant removes rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessGrant {
    /// The operations that the grant allows.
    pub role: Role,
    /// The leases to which the grant applies.
    pub scope: AccessScope,
}

/// A caller that the access file identifies, and its rights.
#[derive(Debug)]
pub struct Principal {
    /// The name of the principal. The principal owns the leases that it acquires.
    pub name: Arc<str>,
    /// The rights of the principal.
    pub grants: Box<[AccessGrant]>,
}

/// The right that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// No right: the request needs no credential.
    Open,
    /// Any valid credential.
    Credential,
    /// Any valid credential but a session.
    OwnCredential,
    /// A valid session.
    Session,
    /// A one-time code in the body, which the handler checks, or any valid credential but a session.
    CodeOrOwnCredential,
    Role(Role),
    /// One of two roles. The handler decides which role is needed, because the decision depends on
    /// the body.
    Either(Role, Role),
}

/// The object of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// The store as a whole.
    Store,
    /// The leases of a namespace. The handler returns only the leases within the scope.
    Namespace(&'a str),
    /// A namespace and a lease in it.
    Lease(&'a str, &'a str),
    /// The leases of all namespaces. The handler returns only the leases within the scope.
    Anywhere,
}

/// The kind of a request's credential, as far as rights depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    /// No credential.
    None,
    /// A session.
    Session,
    /// A credential of the principal's own: a token, a JSON web token, or a client certificate.
    Own,
}

/// Returns whether a request with a credential of this kind may have this right at all.
pub(crate) fn is_for(right: Right, kind: CredentialKind) -> bool {
    match right {
        Right::Open => true,
        Right::Credential | Right::Role(_) | Right::Either(..) => kind != CredentialKind::None,
        Right::OwnCredential => kind == CredentialKind::Own,
        Right::Session => kind == CredentialKind::Session,
        Right::CodeOrOwnCredential => kind != CredentialKind::Session,
    }
}

/// Returns whether these grants allow the request. A request is refused unless a grant allows it.
///
/// The function reads only names: the answer does not depend on whether a lease exists.
pub(crate) fn is_allowed(grants: &[AccessGrant], right: Right, target: Target<'_>) -> bool {
    let has = |role| {
        let mut grants = grants.iter();
        grants.any(|grant| grant.role.includes(role) && grant.scope.covers(target))
    };
    match right {
        Right::Open
        | Right::Credential
        | Right::OwnCredential
        | Right::Session
        | Right::CodeOrOwnCredential => true,
        Right::Role(role) => has(role),
        Right::Either(one, other) => has(one) || has(other),
    }
}

/// Returns the prefixes of the names in a namespace for which these grants give a role: sorted, and
/// without a prefix that begins with another one. The empty prefix stands for all names.
pub(crate) fn prefixes<'a>(grants: &'a [AccessGrant], role: Role, namespace: &str) -> Vec<&'a str> {
    let grants = grants.iter();
    let grants =
        grants.filter(|grant| grant.role.includes(role) && grant.scope.has_namespace(namespace));
    let mut prefixes: Vec<&str> = grants.map(|grant| &*grant.scope.prefix).collect();
    prefixes.sort_unstable();
    prefixes.dedup_by(|next, kept| next.starts_with(*kept));
    prefixes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(role: Role, namespace: &str, prefix: &str) -> AccessGrant {
        let namespace = (namespace != "*").then(|| namespace.parse().unwrap());
        AccessGrant {
            role,
            scope: AccessScope::new(namespace, prefix),
        }
    }

    /// The matrix, written by hand: each role, and the rights that it gives.
    const GIVES: [(Role, [bool; 5]); 5] = [
        // read, candidate, operator, metrics, admin
        (Role::Read, [true, false, false, false, false]),
        (Role::Candidate, [true, true, false, false, false]),
        (Role::Operator, [true, false, true, false, false]),
        (Role::Metrics, [false, false, false, true, false]),
        (Role::Admin, [true, true, true, true, true]),
    ];

    /// The scopes and the targets, and whether each scope contains each target.
    const COVERS: [((&str, &str), [bool; 7]); 4] = [
        // store, billing, ops, billing/nightly-1, billing/daily, ops/nightly, anywhere
        (("*", ""), [true, true, true, true, true, true, true]),
        (
            ("*", "nightly"),
            [false, true, true, true, false, true, true],
        ),
        (
            ("billing", ""),
            [false, true, false, true, true, false, true],
        ),
        (
            ("billing", "nightly"),
            [false, true, false, true, false, false, true],
        ),
    ];

    const TARGETS: [Target<'_>; 7] = [
        Target::Store,
        Target::Namespace("billing"),
        Target::Namespace("ops"),
        Target::Lease("billing", "nightly-1"),
        Target::Lease("billing", "daily"),
        Target::Lease("ops", "nightly"),
        Target::Anywhere,
    ];

    #[test]
    fn rights_are_those_of_the_matrix() {
        let columns = [
            Role::Read,
            Role::Candidate,
            Role::Operator,
            Role::Metrics,
            Role::Admin,
        ];
        for (role, gives) in GIVES {
            for ((namespace, prefix), covers) in COVERS {
                let grants = [grant(role, namespace, prefix)];
                for (target, is_covered) in TARGETS.into_iter().zip(covers) {
                    for (needed, is_given) in columns.into_iter().zip(gives) {
                        assert_eq!(
                            is_allowed(&grants, Right::Role(needed), target),
                            is_given && is_covered,
                            "{role} on {namespace}/{prefix}: {needed} on {target:?}"
                        );
                    }
                    let either = Right::Either(Role::Candidate, Role::Operator);
                    let has_either = !matches!(role, Role::Read | Role::Metrics);
                    assert_eq!(
                        is_allowed(&grants, either, target),
                        has_either && is_covered,
                        "{role} on {namespace}/{prefix}: {target:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_session_has_all_rights_of_its_maker_except_to_make_a_session() {
        use CredentialKind::{None, Own, Session};
        for (right, without, session, own) in [
            (Right::Open, true, true, true),
            (Right::Credential, false, true, true),
            (Right::Role(Role::Admin), false, true, true),
            (Right::Either(Role::Read, Role::Admin), false, true, true),
            (Right::OwnCredential, false, false, true),
            (Right::CodeOrOwnCredential, true, false, true),
        ] {
            let found = [None, Session, Own].map(|kind| is_for(right, kind));
            assert_eq!(found, [without, session, own], "{right:?}");
        }
    }

    #[test]
    fn grants_add_up_and_nothing_else_is_allowed() {
        let grants = [
            grant(Role::Candidate, "billing", "nightly"),
            grant(Role::Read, "ops", ""),
        ];
        let may = |role, target| is_allowed(&grants, Right::Role(role), target);
        assert!(may(Role::Candidate, Target::Lease("billing", "nightly")));
        assert!(may(Role::Read, Target::Lease("ops", "x")));
        assert!(!may(Role::Candidate, Target::Lease("ops", "nightly")));
        for target in TARGETS {
            assert!(!is_allowed(&[], Right::Role(Role::Read), target));
            assert!(is_allowed(&[], Right::Credential, target));
            assert!(is_allowed(&[], Right::Open, target));
        }
    }

    #[test]
    fn the_visible_names_of_a_namespace_are_few_prefixes() {
        let grants = [
            grant(Role::Read, "a", "x-"),
            grant(Role::Candidate, "a", "x"),
            grant(Role::Read, "a", "b"),
            grant(Role::Metrics, "a", ""),
            grant(Role::Read, "b", ""),
        ];
        assert_eq!(prefixes(&grants, Role::Read, "a"), ["b", "x"]);
        assert_eq!(prefixes(&grants, Role::Candidate, "a"), ["x"]);
        assert_eq!(prefixes(&grants, Role::Read, "b"), [""]);
        assert!(prefixes(&grants, Role::Read, "c").is_empty());
    }

    #[test]
    fn a_role_is_read_by_its_name() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
        }
        let error = "owner".parse::<Role>().unwrap_err();
        assert_eq!(
            error,
            "a role is one of read, candidate, operator, metrics, admin"
        );
    }
}

//! One act, as the audit log has it.

use std::net::IpAddr;

use serde::Serialize;
use tenure_core::wire::LeaseView;

use crate::access::Caller;

/// The kind of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditKind {
    /// The store has started.
    Start,
    /// The store stops.
    Stop,
    /// The access file or a certificate was read again.
    Reload,
    /// Credentials were refused.
    Credential,
    /// An operator broke a lease.
    Break,
    /// An operator handed a lease over.
    Handover,
    /// An operator deleted a lease.
    Delete,
}

/// One act. It has no lease id, no token and no body of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    kind: AuditKind,
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    election: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

impl AuditEntry {
    /// An act with this outcome: `done`, or a reason for a refusal.
    #[must_use]
    pub fn new(kind: AuditKind, outcome: impl Into<String>) -> Self {
        Self {
            kind,
            outcome: outcome.into(),
            principal: None,
            via: None,
            secret: None,
            address: None,
            election: None,
            epoch: None,
            holder: None,
            owner: None,
            reason: None,
            count: None,
        }
    }

    /// Sets the reason.
    #[must_use]
    pub fn with_reason(self, reason: Option<String>) -> Self {
        Self { reason, ..self }
    }

    pub(crate) fn with_count(self, count: u64) -> Self {
        Self {
            count: Some(count),
            ..self
        }
    }

    pub(crate) fn of_address(self, address: Option<IpAddr>) -> Self {
        Self { address, ..self }
    }

    pub(crate) fn of_caller(self, caller: &Caller) -> Self {
        let proof = match caller {
            Caller::Admitted(admission) => Some(&admission.proof),
            Caller::Anyone | Caller::Unknown => None,
        };
        Self {
            principal: caller.name().map(ToString::to_string),
            via: Some(proof.map_or("anyone", |proof| proof.kind())),
            secret: proof.and_then(|proof| Some(proof.secret_id()?.to_string())),
            ..self
        }
    }

    pub(crate) fn of_election(self, election: &str) -> Self {
        Self {
            election: Some(election.into()),
            ..self
        }
    }

    /// The lease after the act.
    pub(crate) fn of_lease(self, view: &LeaseView) -> Self {
        Self {
            epoch: view.epoch,
            holder: view.holder.clone(),
            owner: view.owner.clone(),
            ..self
        }
    }
}

//! One act, as it is written in the audit log.

use std::net::IpAddr;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};
use tenure_core::lease::Owner;
use tenure_core::wire::{EventKind, LeaseView};

use crate::access::Caller;
use crate::model::{LeaseChange, TraceId};

/// The kind of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditKind {
    /// The start of the store.
    Start,
    /// The stop of the store.
    Stop,
    /// The restore of the store from a backup before this start.
    Restore,
    /// A reload of the access file or of a certificate.
    Reload,
    /// Refused credentials.
    Credential,
    /// A session that a person has made to sign in to the page.
    #[serde(rename = "sign-in")]
    SignIn,
    /// The break of a lease by an operator.
    Break,
    /// The handover of a lease by an operator.
    Handover,
    /// The resignation of the active server of a cluster, for an operator.
    Resign,
    /// The deletion of a lease by an operator.
    Delete,
    /// The beginning of a term.
    Granted,
    /// The continuation of a term that ran without the store.
    Resumed,
    /// The end of a term by its holder.
    Released,
    /// The end of a term that was not renewed.
    Expired,
    /// The end of a term whose lease was broken.
    Broken,
}

/// One act. It contains no lease id, no token and no body of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    #[serde(serialize_with = "rfc3339")]
    at: DateTime<Utc>,
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
    request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    election: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
}

impl AuditEntry {
    /// Creates the entry of an act at this moment with this outcome: `done`, or the reason for a
    /// refusal.
    #[must_use]
    pub fn new(kind: AuditKind, outcome: impl Into<String>) -> Self {
        Self {
            at: Utc::now(),
            kind,
            outcome: outcome.into(),
            principal: None,
            via: None,
            secret: None,
            address: None,
            request: None,
            trace_id: None,
            election: None,
            epoch: None,
            holder: None,
            owner: None,
            revision: None,
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

    pub(crate) fn of_request(self, request: Option<String>) -> Self {
        Self { request, ..self }
    }

    pub(crate) fn of_trace(self, trace: Option<TraceId>) -> Self {
        Self {
            trace_id: trace.map(|trace| trace.to_string()),
            ..self
        }
    }

    pub(crate) fn of_caller(self, caller: &Caller) -> Self {
        let proof = match caller {
            Caller::Admitted(admission) => Some(&admission.proof),
            Caller::Anyone(_) | Caller::Unknown => None,
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

    pub(crate) fn of_lease(self, view: &LeaseView) -> Self {
        Self {
            epoch: view.epoch,
            holder: view.holder.clone(),
            owner: view.owner.clone(),
            ..self
        }
    }

    /// Returns the entry for the grant, the continuation or the end of a term; `None` for other changes.
    pub(crate) fn of_change(change: &LeaseChange) -> Option<Self> {
        let kind = match change.cause.kind() {
            EventKind::Granted => AuditKind::Granted,
            EventKind::Resumed => AuditKind::Resumed,
            EventKind::Released => AuditKind::Released,
            EventKind::Expired => AuditKind::Expired,
            EventKind::Broken => AuditKind::Broken,
            _ => return None,
        };
        let grant = change.grant()?;
        let name = |owner: &Owner| owner.as_str().to_owned();
        Some(Self {
            principal: change.principal().map(name),
            election: Some(change.key.as_str().into()),
            epoch: Some(grant.epoch.get()),
            holder: Some(grant.holder.as_str().into()),
            owner: grant.owner.as_ref().map(name),
            revision: Some(change.revision),
            reason: change.cause.reason().map(Into::into),
            ..Self::new(kind, "done").of_trace(change.trace)
        })
    }
}

fn rfc3339<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_rfc3339_opts(SecondsFormat::Millis, true))
}

//! The routes that show callers: the rights of the caller, and all principals for administrators.

use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::body::{Json, JsonResult};
use super::call::Call;
use crate::access::{AccessGrant, Caller, ListedSecret, SecretId};

/// The caller, as identified by the store.
#[derive(Serialize, JsonSchema)]
pub(super) struct WhoAmI {
    /// The name of the principal; null without access control.
    principal: Option<String>,
    /// The kind of the credential: `token`, `jwt`, `certificate` or `session`; `anyone` without
    /// access control.
    kind: &'static str,
    /// The id of the token; null for other credentials.
    secret: Option<String>,
    /// The time from which on the credential is refused.
    #[schemars(extend("format" = "date-time"))]
    expires: Option<String>,
    grants: Vec<GrantView>,
}

/// A role for some leases.
#[derive(Serialize, JsonSchema)]
struct GrantView {
    role: &'static str,
    /// A namespace, or `*` for all.
    namespace: String,
    /// The beginning of the names of the leases; absent for all leases.
    #[serde(skip_serializing_if = "String::is_empty")]
    prefix: String,
}

/// All principals of the access file.
#[derive(Serialize, JsonSchema)]
pub(super) struct AccessView {
    principals: Vec<PrincipalView>,
}

/// A principal with its rights and tokens.
#[derive(Serialize, JsonSchema)]
struct PrincipalView {
    name: String,
    grants: Vec<GrantView>,
    secrets: Vec<SecretView>,
}

/// A token without its hash.
#[derive(Serialize, JsonSchema)]
struct SecretView {
    id: String,
    #[schemars(extend("format" = "date-time"))]
    created: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    expires: Option<String>,
    /// The last use since the start of the store.
    #[schemars(extend("format" = "date-time"))]
    last_used: Option<String>,
}

pub(super) async fn whoami(call: Call<'_>) -> JsonResult<WhoAmI> {
    Ok(Json(match &call.caller {
        Caller::Admitted(admission) => WhoAmI {
            principal: Some(admission.principal.name.to_string()),
            kind: admission.proof.kind(),
            secret: admission.proof.secret_id().map(|id| id.to_string()),
            expires: admission.expires.map(rfc3339),
            grants: admission.principal.grants.iter().map(grant).collect(),
        },
        Caller::Anyone(_) | Caller::Unknown => WhoAmI {
            principal: None,
            kind: "anyone",
            secret: None,
            expires: None,
            grants: Vec::new(),
        },
    }))
}

pub(super) async fn principals(call: Call<'_>) -> JsonResult<AccessView> {
    let principals = call.access.with_principals(|principals, last_used| {
        let principals = principals.iter().map(|listed| PrincipalView {
            name: listed.principal.name.to_string(),
            grants: listed.principal.grants.iter().map(grant).collect(),
            secrets: listed
                .secrets
                .iter()
                .map(|listed| secret(listed, last_used))
                .collect(),
        });
        principals.collect()
    });
    Ok(Json(AccessView {
        principals: principals.unwrap_or_default(),
    }))
}

fn grant(grant: &AccessGrant) -> GrantView {
    let namespace = grant.scope.namespace().map_or("*", |name| name.as_str());
    GrantView {
        role: grant.role.as_str(),
        namespace: namespace.into(),
        prefix: grant.scope.prefix().into(),
    }
}

fn secret(listed: &ListedSecret, last_used: &dyn Fn(SecretId) -> Option<SystemTime>) -> SecretView {
    SecretView {
        id: listed.id.to_string(),
        created: listed.created.map(rfc3339),
        expires: listed.expires.map(rfc3339),
        last_used: last_used(listed.id).map(rfc3339),
    }
}

pub(super) fn rfc3339(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Secs, true)
}

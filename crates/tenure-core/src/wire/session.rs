//! The bodies of the routes that sign people in.

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

/// The body of a request for a session. Without a code, the credential of the request counts.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionRequest {
    /// A one-time code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// A session: a credential for some hours, with the rights of the principal that asked for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SessionReply {
    /// The credential, for the header `Authorization: Bearer`.
    pub session: String,
    /// The name of the principal.
    pub principal: String,
    /// The end of the session (RFC 3339).
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub expires_at: String,
}

/// A code that can be exchanged for a session once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SessionCode {
    /// The code.
    pub code: String,
    /// The time from which on the code is refused (RFC 3339).
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub expires_at: String,
}

impl SessionReply {
    /// Creates the reply with this session.
    #[must_use]
    pub const fn new(session: String, principal: String, expires_at: String) -> Self {
        Self {
            session,
            principal,
            expires_at,
        }
    }
}

impl SessionCode {
    /// Creates the reply with this code.
    #[must_use]
    pub const fn new(code: String, expires_at: String) -> Self {
        Self { code, expires_at }
    }
}

// The texts of these types are secrets, so they are not shown.

impl fmt::Debug for SessionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionRequest(..)")
    }
}

impl fmt::Debug for SessionReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionReply")
            .field("principal", &self.principal)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SessionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCode")
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_debug_text_has_a_code_or_a_session() {
        let secret = || String::from("canary");
        let request = SessionRequest {
            code: Some(secret()),
        };
        let reply = SessionReply::new(secret(), "ada".into(), "then".into());
        let code = SessionCode::new(secret(), "then".into());
        let shown = alloc::format!("{request:?} {reply:?} {code:?}");
        assert!(
            !shown.contains("canary") && shown.contains("ada"),
            "{shown}"
        );
    }
}

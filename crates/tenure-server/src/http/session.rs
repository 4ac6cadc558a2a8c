//! The routes that sign people in and out: sessions, and one-time codes for them.

use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, HeaderName};
use tenure_core::wire::{Code, Problem, SessionCode, SessionReply, SessionRequest};

use super::auditor::Auditor;
use super::body::Json;
use super::call::Call;
use super::identity::rfc3339;

/// An answer with a secret, which no cache may keep.
type Secret<T> = ([(HeaderName, &'static str); 1], Json<T>);

const NO_STORE: [(HeaderName, &str); 1] = [(CACHE_CONTROL, "no-store")];

/// Makes a session from the code in the body, or else from the credential of the request. The code
/// counts if there are both: a page may still have the session of an earlier sign-in.
pub(super) async fn create(call: Call<'_>) -> Result<Secret<SessionReply>, Problem> {
    let SessionRequest { code, .. } = call.optional_json()?;
    let auditor = Auditor::of(&call);
    let maker = match &code {
        Some(code) => auditor.use_code(call.access, code)?,
        None => call.caller,
    };
    let issued = call.access.issue_session(&maker)?;
    let Some(principal) = maker.name() else {
        return Err(Problem::new(Code::Internal, "the caller has no name"));
    };
    auditor.record_sign_in(&maker, code.is_some());
    let reply = SessionReply::new(issued.text, principal.to_string(), rfc3339(issued.expires));
    Ok((NO_STORE, Json(reply)))
}

/// Ends the session of the request.
pub(super) async fn end(call: Call<'_>) -> Result<StatusCode, Problem> {
    call.access.end_session(&call.caller)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a one-time code with which somebody can make a session of the caller.
pub(super) async fn create_code(call: Call<'_>) -> Result<Secret<SessionCode>, Problem> {
    let issued = call.access.issue_code(&call.caller)?;
    let reply = SessionCode::new(issued.text, rfc3339(issued.expires));
    Ok((NO_STORE, Json(reply)))
}

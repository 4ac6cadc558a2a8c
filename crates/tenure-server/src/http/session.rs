//! The routes that sign people in and out: sessions, and one-time codes for them.

use axum::extract::Extension;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, HeaderName};
use tenure_core::wire::{Code, Problem, SessionCode, SessionReply, SessionRequest};

use super::auditor::Auditor;
use super::body::{Json, OptionalJsonBody};
use super::identity::rfc3339;
use super::problem::ProblemResponse;
use super::query::NoQuery;
use crate::access::{Access, Caller};

/// An answer with a secret, which no cache may keep.
type Secret<T> = ([(HeaderName, &'static str); 1], Json<T>);

const NO_STORE: [(HeaderName, &str); 1] = [(CACHE_CONTROL, "no-store")];

/// Makes a session from the code in the body, or else from the credential of the request. The code
/// counts if there are both: a page may still have the session of an earlier sign-in.
pub(super) async fn create(
    Extension(access): Extension<Access>,
    caller: Caller,
    auditor: Auditor,
    _: NoQuery,
    OptionalJsonBody(SessionRequest { code, .. }): OptionalJsonBody<SessionRequest>,
) -> Result<Secret<SessionReply>, ProblemResponse> {
    let maker = match &code {
        Some(code) => auditor.use_code(&access, code)?,
        None => caller,
    };
    let issued = access.issue_session(&maker)?;
    let Some(principal) = maker.name() else {
        return Err(Problem::new(Code::Internal, "the caller has no name").into());
    };
    auditor.record_sign_in(&maker, code.is_some());
    let reply = SessionReply::new(issued.text, principal.to_string(), rfc3339(issued.expires));
    Ok((NO_STORE, Json(reply)))
}

/// Ends the session of the request.
pub(super) async fn end(
    Extension(access): Extension<Access>,
    caller: Caller,
    _: NoQuery,
) -> Result<StatusCode, ProblemResponse> {
    access.end_session(&caller)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a one-time code with which somebody can make a session of the caller.
pub(super) async fn create_code(
    Extension(access): Extension<Access>,
    caller: Caller,
    _: NoQuery,
) -> Result<Secret<SessionCode>, ProblemResponse> {
    let issued = access.issue_code(&caller)?;
    let reply = SessionCode::new(issued.text, rfc3339(issued.expires));
    Ok((NO_STORE, Json(reply)))
}

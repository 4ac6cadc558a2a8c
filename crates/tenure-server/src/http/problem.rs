//! The conversion of problems to responses.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tenure_core::wire::Problem;

/// The seconds after which a client should retry. A full disk or a restart lasts at least this
/// long.
const RETRY_AFTER_SECONDS: &str = "1";

/// The media type of problems (RFC 9457).
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// Returns a problem as a response, which has its code as an extension.
pub(super) fn response(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::to_vec(problem).unwrap_or_default();
    let json = HeaderValue::from_static(MEDIA_TYPE);
    let mut response = (status, [(CONTENT_TYPE, json)], body).into_response();
    // The service counts refusals by their codes.
    response.extensions_mut().insert(problem.code);
    if problem.status == 401 {
        // RFC 9110, section 11.6.1 requires the scheme in the answer.
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    if matches!(problem.status, 429 | 503 | 507) {
        let seconds = HeaderValue::from_static(RETRY_AFTER_SECONDS);
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    response
}

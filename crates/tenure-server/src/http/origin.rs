//! Checks for requests that a browser sends on behalf of a page of another site, from a machine
//! that can reach the store.

use axum::http::{HeaderMap, HeaderValue, Method};
use tenure_core::wire::{self, Code, Problem};

/// Refuses a request that would change something and that a browser sent for a page of another
/// origin.
///
/// Streams of events call [`check_page`] themselves, because only their handlers know that a `GET`
/// asks for a stream.
pub(super) fn check_origin(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if method.is_safe() {
        return Ok(());
    }
    check_page(headers)
}

/// Refuses a request that a browser sent for a page of another origin, with any method.
pub(super) fn check_page(headers: &HeaderMap) -> Result<(), Problem> {
    wire::check_page(|name| headers.get(name).map(HeaderValue::as_bytes))
        .map_err(|detail| Problem::new(Code::CrossOrigin, detail))
}

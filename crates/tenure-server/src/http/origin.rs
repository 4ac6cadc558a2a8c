//! Checks for requests that a browser sends on behalf of a page of another site, from a machine
//! that can reach the store.

use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, Method};
use tenure_core::wire::{Code, Problem};

/// The header in which the browser gives the relation of the page to the server. No page can set it
/// (Fetch Metadata, W3C).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request that would change something and that a browser sent for a page of another
/// origin. A browser sends a `POST` without a body for any page without a preflight request: the
/// page cannot read the response, but the server executes the request.
///
/// Streams of events call [`check_page`] themselves, because only their handlers know that a `GET`
/// asks for a stream.
pub(super) fn check_origin(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if method.is_safe() {
        return Ok(());
    }
    check_page(headers)
}

/// Refuses a request that a browser sent for a page of another origin, with any method. Browsers
/// give the page's origin in one of two headers. A request without both headers does not come from
/// a page.
///
/// The headers are checked in the same order as in Go's `http.CrossOriginProtection`: behind a
/// proxy that writes another `Host`, the header that the browser sets decides.
pub(super) fn check_page(headers: &HeaderMap) -> Result<(), Problem> {
    let origin = headers.get(ORIGIN).map(|value| value.as_bytes());
    let is_own = match (headers.get(SEC_FETCH_SITE), origin) {
        (Some(site), _) => site == "same-origin" || site == "none",
        (None, Some(origin)) => headers
            .get(HOST)
            .is_some_and(|host| is_of(origin, host.as_bytes())),
        (None, None) => true,
    };
    if is_own {
        return Ok(());
    }
    let origin = String::from_utf8_lossy(origin.unwrap_or(b"unknown"));
    Err(Problem::new(
        Code::CrossOrigin,
        format!("a browser sent the request for a page of another origin ({origin:.100})"),
    ))
}

/// Returns whether an origin such as `https://store.example:7400` has this host and port.
fn is_of(origin: &[u8], host: &[u8]) -> bool {
    let of_origin = origin
        .strip_prefix(b"http://")
        .or_else(|| origin.strip_prefix(b"https://"));
    of_origin.is_some_and(|of_origin| of_origin.eq_ignore_ascii_case(host))
}

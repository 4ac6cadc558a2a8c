//! Pages of other sites, open in the browser of somebody who can reach the store.

use axum::extract::Request;
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, Method};
use tenure_core::wire::{Code, Problem};

use super::problem::Failure;

/// Whose page a browser asks for. No page can write it (Fetch Metadata, W3C).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// [`check_origin`], around a router. Streams of events call [`check_page`] themselves, because only their
/// handlers know that a `GET` asks for one.
pub(super) async fn check_request_origin(request: Request) -> Result<Request, Failure> {
    check_origin(request.method(), request.headers())?;
    Ok(request)
}

/// Refuses what would change something and was sent by a browser for a page of another origin. A browser
/// sends a `POST` without a body for any page, and asks nobody; the page can't read the answer, but what
/// was asked for is done.
pub(super) fn check_origin(method: &Method, headers: &HeaderMap) -> Result<(), Failure> {
    if method.is_safe() {
        return Ok(());
    }
    check_page(headers)
}

/// Refuses a request that a browser sent for a page of another origin, whatever its method. Browsers tell
/// the page's origin in one of two headers; a request without both comes from no page.
///
/// The order is that of Go's `http.CrossOriginProtection`: behind a proxy that writes another `Host`, the
/// browser's own word counts.
pub(super) fn check_page(headers: &HeaderMap) -> Result<(), Failure> {
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
    Err(Failure(Problem::new(
        Code::CrossOrigin,
        format!("a browser sent this for a page of another origin ({origin:.100})"),
    )))
}

/// Whether an origin such as `https://store.example:7400` is this host and port.
fn is_of(origin: &[u8], host: &[u8]) -> bool {
    let schemes = [b"http://".as_slice(), b"https://"];
    let mut hosts = schemes
        .iter()
        .filter_map(|scheme| origin.strip_prefix(*scheme));
    hosts.any(|of_origin| of_origin.eq_ignore_ascii_case(host))
}

//! The guard in front of a listener without credentials: pages of other sites, which a browser on a
//! reachable machine shows, neither read its answers nor send it anything.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use tenure_core::wire::{Code, Problem, check_host, check_page};

/// Returns these routes behind the checks of `Host` and `Origin`. They answer for IP addresses,
/// `localhost` and these `hosts`. `server` names them in refusals, and the setting `hosts` takes
/// further names. Requests for which `any_host` is true may name another host.
pub fn guard(
    router: Router,
    hosts: Vec<String>,
    server: &'static str,
    any_host: fn(&Request) -> bool,
) -> Router {
    let hosts: Arc<[String]> = hosts.into();
    router.layer(from_fn(move |request: Request, next: Next| {
        let hosts = hosts.clone();
        async move {
            let checked = check(&request, &hosts, server, any_host(&request));
            match checked {
                Ok(()) => next.run(request).await,
                Err(detail) => refuse(detail),
            }
        }
    }))
}

fn check(request: &Request, hosts: &[String], server: &str, any_host: bool) -> Result<(), String> {
    let headers = request.headers();
    let header = |name| headers.get(name).map(HeaderValue::as_bytes);
    if !request.method().is_safe() {
        check_page(header)?;
    }
    if any_host {
        return Ok(());
    }
    let target = request.uri().authority().map(|it| it.as_str().as_bytes());
    let authority = target.or_else(|| headers.get(HOST).map(HeaderValue::as_bytes));
    check_host(authority, hosts.iter().map(String::as_str), server, "hosts")
}

fn refuse(detail: String) -> Response {
    tracing::debug!("refused: {detail}");
    let kind = HeaderValue::from_static("application/problem+json");
    let problem = Problem::new(Code::CrossOrigin, detail);
    let mut response = (StatusCode::FORBIDDEN, Json(problem)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

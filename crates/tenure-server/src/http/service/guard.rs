//! The guard in front of all handlers: it checks the origin of a request and finds its sender.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::request::Parts;
use tenure_core::wire::{Code, Problem};

use crate::access::{Access, Caller, PresentedCertificate};
use crate::audit::Audit;
use crate::http::origin::check_origin;
use crate::http::request_id::LazyRequestId;
use crate::http::routes;

/// Returns the caller of a request of the native API, or a refusal of the request.
pub(super) fn admit(
    access: &Access,
    audit: &Audit,
    head: &Parts,
    certificate: Option<&PresentedCertificate>,
    client: Option<IpAddr>,
    request: &LazyRequestId,
) -> Result<Caller, Problem> {
    check_origin(&head.method, &head.headers)?;
    if routes::is_probe(head) {
        return Ok(Caller::Unknown);
    }
    check_host(access, head)?;
    if routes::is_open(head) {
        return Ok(Caller::Unknown);
    }
    let has_header = head.headers.contains_key(AUTHORIZATION);
    let caller = match certificate {
        // If a header is present, only the header counts: the rights of a request must not depend
        // on its connection, which may be the connection of a proxy.
        Some(certificate) if !has_header => access.authenticate_certificate(certificate, client),
        None if !has_header && access.is_guarded() && routes::may_have_code(head) => {
            Ok(Caller::Unknown)
        }
        _ => access.authenticate(&head.headers, client),
    };
    if let Err(problem) = &caller
        && (has_header || certificate.is_some())
    {
        audit.record_refusal(client, problem.code.as_str(), || request.id().to_string());
    }
    caller
}

/// Checks a request of another protocol, which authenticates its requests itself.
pub(super) fn admit_foreign(access: &Access, head: &Parts) -> Result<(), Problem> {
    check_origin(&head.method, &head.headers)?;
    check_host(access, head)
}

/// Refuses a request for a host name that is not the store's, if the store has no access control.
fn check_host(access: &Access, head: &Parts) -> Result<(), Problem> {
    let Some(hosts) = access.hosts() else {
        return Ok(());
    };
    let authority = head.uri.authority().map(|authority| authority.as_str());
    let host = authority.or_else(|| host_of(&head.headers));
    match host.map(without_port) {
        // Browsers send a host with each request, so a request without a host is not from a
        // browser.
        None => Ok(()),
        Some(host) if is_own(host, hosts) => Ok(()),
        Some(host) => Err(Problem::new(
            Code::CrossOrigin,
            format!(
                "the request is for the host {host:.100}; a store without access control answers for IP \
                 addresses, localhost, and the names in its setting access.hosts"
            ),
        )),
    }
}

fn host_of(headers: &HeaderMap) -> Option<&str> {
    // The check of the head has already refused a host that is not ASCII.
    headers.get(HOST).and_then(|host| host.to_str().ok())
}

/// Removes the port from `host:port` or `[v6]:port`. A host without a port is returned as it is.
fn without_port(authority: &str) -> &str {
    let v6 = authority.strip_prefix('[');
    match v6.and_then(|rest| rest.split_once(']')) {
        Some((host, port)) if port.is_empty() || port.starts_with(':') => host,
        _ => authority.split(':').next().unwrap_or(authority),
    }
}

fn is_own(host: &str, hosts: &[String]) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_localhost = |name: &str| {
        let name = name.to_ascii_lowercase();
        // Browsers resolve these names to this machine without a query (RFC 6761, section 6.3).
        name == "localhost" || name.ends_with(".localhost")
    };
    host.parse::<IpAddr>().is_ok()
        || is_localhost(host)
        || hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn admitted(host: &str, path: &str) -> bool {
        let access = Access::anonymous_at(["store.lan".to_owned()]);
        let request = Request::builder().uri(path).header(HOST, host);
        let head = request.body(()).unwrap().into_parts().0;
        let request = LazyRequestId::of(&head.headers);
        let refusal = admit(&access, &Audit::none(), &head, None, None, &request).err();
        assert!(refusal.as_ref().is_none_or(|refusal| refusal.status == 403));
        refusal.is_none()
    }

    #[test]
    fn without_access_control_the_host_must_be_the_stores() {
        for host in [
            "127.0.0.1:7400",
            "10.0.0.5",
            "[::1]:7400",
            "localhost",
            "localhost:7400",
            "LocalHost.:7400",
            "account.localhost:10000",
            "store.lan",
            "STORE.lan:7400",
        ] {
            assert!(admitted(host, "/v1/limits"), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7400",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "store.lan.evil.example",
            "notlocalhost",
            "[::1].evil.example",
            "[::1",
            "",
        ] {
            assert!(!admitted(host, "/v1/limits"), "{host}");
            assert!(!admitted(host, "/v1/nothing"), "{host}");
            assert!(!admitted(host, "/"), "{host}");
            assert!(!admitted(host, "/ui/app.js"), "{host}");
            assert!(admitted(host, "/livez"), "{host}");
        }
    }
}

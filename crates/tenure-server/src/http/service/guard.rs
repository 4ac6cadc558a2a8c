//! The guard in front of all handlers: it checks the origin of a request and finds its sender.

use std::net::IpAddr;

use axum::http::HeaderValue;
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::request::Parts;
use tenure_core::wire::{self, Code, Problem};

use super::Source;
use crate::access::{Access, Caller};
use crate::audit::Audit;
use crate::http::origin::check_origin;
use crate::http::request_id::LazyRequestId;
use crate::http::routes::Found;

/// Returns the caller of a request of the native API, or a refusal of the request.
pub(super) fn admit(
    access: &Access,
    audit: &Audit,
    (head, found): (&Parts, &Found<'_>),
    source: &Source,
    client: Option<IpAddr>,
    request: &LazyRequestId,
) -> Result<Caller, Problem> {
    check_origin(&head.method, &head.headers)?;
    if found.is_probe() {
        return Ok(Caller::Unknown);
    }
    check_host(access, head)?;
    if found.is_open(head) {
        return Ok(Caller::Unknown);
    }
    let has_header = head.headers.contains_key(AUTHORIZATION);
    let certificate = source.certificate.as_ref();
    let caller = match certificate {
        // If a header is present, only the header counts: the rights of a request must not depend
        // on its connection, which may be the connection of a proxy.
        Some(certificate) if !has_header => access.authenticate_certificate(certificate, client),
        None if !has_header && access.is_guarded() && found.may_have_code() => Ok(Caller::Unknown),
        _ => access.authenticate_on(&source.credential, &head.headers, client),
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
    let target = head.uri.authority().map(|it| it.as_str().as_bytes());
    let authority = target.or_else(|| head.headers.get(HOST).map(HeaderValue::as_bytes));
    let hosts = hosts.iter().map(String::as_str);
    let store = "a store without access control";
    wire::check_host(authority, hosts, store, "access.hosts")
        .map_err(|detail| Problem::new(Code::CrossOrigin, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::routes;
    use axum::http::Request;

    fn admitted(host: &str, path: &str) -> bool {
        let access = Access::anonymous_at(["store.lan".to_owned()]);
        let request = Request::builder().uri(path).header(HOST, host);
        let head = request.body(()).unwrap().into_parts().0;
        let request = LazyRequestId::of(&head.headers);
        let found = routes::find(&head.method, path);
        let asked = (&head, &found);
        let source = Source::default();
        let refusal = admit(&access, &Audit::none(), asked, &source, None, &request).err();
        assert!(refusal.as_ref().is_none_or(|refusal| refusal.status == 403));
        refusal.is_none()
    }

    #[test]
    fn without_access_control_the_host_must_be_the_stores() {
        for host in ["127.0.0.1:7400", "localhost", "STORE.lan:7400"] {
            assert!(admitted(host, "/v1/limits"), "{host}");
        }
        for host in ["evil.example", "store.lan.evil.example:7400", ""] {
            assert!(!admitted(host, "/v1/limits"), "{host}");
            assert!(!admitted(host, "/v1/nothing"), "{host}");
            assert!(!admitted(host, "/"), "{host}");
            assert!(!admitted(host, "/ui/app.js"), "{host}");
            assert!(admitted(host, "/livez"), "{host}");
        }
        // The host of an absolute target counts.
        assert!(!admitted("localhost", "http://evil.example/v1/limits"));
    }
}

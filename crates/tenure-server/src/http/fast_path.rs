//! Renewals without the router: nearly all requests of a store are renewals.
//!
//! The response is the same as that of the router's route. The fast path saves the search for the
//! route, the data that the router stores for extractors, and its allocations for each call.

use std::pin::pin;

use axum::http::request::Parts;
use axum::http::{Method, Request};
use futures_util::FutureExt;
use tenure_core::lease::Rules;
use tenure_core::wire::{LeaseView, RenewRequest};

use super::body::read;
use super::drain::DrainOnDrop;
use super::leases::{JsonResult, operate};
use super::routes::RENEW;
use crate::Store;
use crate::access::{Access, Caller, Target};
use crate::table::LeaseKey;

/// Returns the lease that this request renews, if it is a renewal in the form that clients usually
/// send. The router answers all other requests.
pub(super) fn renewal(head: &Parts) -> Option<LeaseKey> {
    if head.method != Method::POST || head.uri.query().is_some() {
        return None;
    }
    let path = head.uri.path().strip_prefix("/v1/namespaces/")?;
    let (namespace, lease) = path.strip_suffix("/renew")?.split_once("/leases/")?;
    // A name that contains a `/` is not valid.
    LeaseKey::of_path(namespace, lease)
}

/// Renews the lease.
pub(super) async fn renew(
    store: &Store,
    access: &Access,
    caller: &Caller,
    key: &LeaseKey,
    request: Request<DrainOnDrop>,
) -> JsonResult<LeaseView> {
    let target = Target::Lease(key.namespace(), key.lease());
    caller.check(RENEW.right(), target)?;
    let limits = store.limits();
    let mut body = pin!(read(request, limits, limits.max_body_bytes));
    let request: RenewRequest = match body.as_mut().now_or_never() {
        Some(request) => request?,
        // The body may arrive much later than its head.
        None => {
            let request = body.await?;
            access.check_again(caller, RENEW.right(), target)?;
            request
        }
    };
    operate(store, caller, key, &request.check(&Rules::NATIVE)?, None).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_renewal_takes_the_fast_path() {
        let key = |method: &str, path: &str| {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .body(())
                .unwrap();
            renewal(&request.into_parts().0).map(|key| key.as_str().to_owned())
        };
        let job = Some("ns/job".to_owned());
        assert_eq!(key("POST", "/v1/namespaces/ns/leases/job/renew"), job);
        for (method, path) in [
            ("GET", "/v1/namespaces/ns/leases/job/renew"),
            ("POST", "/v1/namespaces/ns/leases/job/renew?a"),
            ("POST", "/v1/namespaces/ns/leases/job/renew/"),
            ("POST", "/v1/namespaces/ns/leases/job/release"),
            ("POST", "/v1/namespaces/ns/leases/%6aob/renew"),
            ("POST", "/v1/namespaces/ns/leases/a/b/renew"),
            ("POST", "/v1/namespaces/ns/leases//renew"),
            ("POST", "/v1/namespaces/ns/leases/../renew"),
            ("POST", "/v1/namespaces//leases/job/renew"),
            ("POST", "/v1/namespaces/ns/renew"),
            ("POST", "/v2/namespaces/ns/leases/job/renew"),
        ] {
            assert_eq!(key(method, path), None, "{method} {path}");
        }
    }
}

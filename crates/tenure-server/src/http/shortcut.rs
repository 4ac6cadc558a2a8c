//! A way past the router, for renewals: they are nearly all that a store is asked for.
//!
//! What is done and answered is the same as through the router's route. What is saved are its search
//! for that route, what it notes for handlers that ask for it, and its boxes around each call.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;

use axum::BoxError;
use axum::body::{Bytes, HttpBody};
use axum::http::{Method, Request};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tenure_core::wire::LeaseView;

use super::body::{Json, check_content_type};
use super::leases::{Replied, renew_one};
use super::origin::check_origin;
use super::panicked;
use crate::Store;
use crate::table::Key;

/// What is on the shortcut.
pub(crate) type Shortcut = BoxFuture<'static, Result<Response, Infallible>>;

/// The lease that this request is to renew, if it is a renewal as clients write it. The router knows
/// what to say to all else.
pub(crate) fn renewal<B>(request: &Request<B>) -> Option<Key> {
    let uri = request.uri();
    if request.method() != Method::POST || uri.query().is_some() {
        return None;
    }
    let path = uri.path().strip_prefix("/v1/namespaces/")?;
    let (namespace, lease) = path.strip_suffix("/renew")?.split_once("/leases/")?;
    // Neither has a `/`, or it were no name.
    Key::of_path(namespace, lease)
}

/// Renews the lease. `store` is a handle of the connection's.
pub(crate) fn renew<S, B>(store: S, key: Key, request: Request<B>) -> Shortcut
where
    S: AsRef<Store> + Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let headers = request.headers();
    let is_own = check_origin(request.method(), headers);
    let declared = is_own.and_then(|()| check_content_type(headers));
    let body = request.into_body();
    caught(async move {
        let store = store.as_ref();
        let Json(request) = Json::read(declared, body, store.limits()).await?;
        renew_one(store, &key, &request).await
    })
}

/// The answer, in the same net that is around the router.
fn caught(answer: impl Future<Output = Replied<LeaseView>> + Send + 'static) -> Shortcut {
    let answer = AssertUnwindSafe(answer).catch_unwind();
    Box::pin(answer.map(|answer| {
        Ok(match answer {
            Ok(answer) => answer.into_response(),
            Err(panic) => panicked(panic),
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fault_ends_one_request_and_nothing_else() {
        async fn fault() -> Replied<LeaseView> {
            panic!("a fault")
        }
        let Ok(response) = caught(fault()).await;
        assert_eq!(response.status(), 500);
    }

    #[test]
    fn only_a_plain_renewal_is_on_the_shortcut() {
        let key = |method: &str, path: &str| {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .body(())
                .unwrap();
            renewal(&request).map(|key| key.as_str().to_owned())
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

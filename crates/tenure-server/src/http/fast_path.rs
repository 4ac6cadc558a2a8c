//! Acquires, renewals and releases without the router: nearly all requests of a store are these.
//!
//! The response is the same as that of the router's route. The fast path saves the search for the
//! route, the data that the router stores for extractors, and its allocations for each call.

use std::sync::LazyLock;

use axum::http::request::Parts;
use axum::http::{Method, Request};
use tenure_core::lease::Rules;
use tenure_core::wire::{LeaseView, ReleaseRequest, RenewRequest};

use super::authorize::read_checked;
use super::body::parse;
use super::drain::DrainOnDrop;
use super::leases::{JsonResult, acquire_as, operate};
use super::routes::{ACQUIRE, NO_ROUTE, RELEASE, RENEW, ROUTES, Route};
use crate::Store;
use crate::access::{Access, Caller, Target};
use crate::table::LeaseKey;

/// A request that takes the fast path.
#[derive(Debug)]
pub(super) struct FastRequest {
    pub(super) verb: Verb,
    key: LeaseKey,
}

/// The last part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Acquire,
    Renew,
    Release,
}

impl Verb {
    const fn route(self) -> Route {
        match self {
            Self::Acquire => ACQUIRE,
            Self::Renew => RENEW,
            Self::Release => RELEASE,
        }
    }

    /// Returns the position of its route in the table, which is not searched for each request.
    pub(super) fn position(self) -> usize {
        static POSITIONS: LazyLock<[usize; 3]> = LazyLock::new(|| {
            [Verb::Acquire, Verb::Renew, Verb::Release].map(|verb| {
                let label = verb.route().label();
                let position = ROUTES.iter().position(|route| route.label() == label);
                position.unwrap_or(NO_ROUTE)
            })
        });
        POSITIONS[self as usize]
    }
}

impl FastRequest {
    /// Returns the lease and the operation of this request, if it has the form that clients usually
    /// send. The router answers all other requests.
    pub(super) fn of(head: &Parts) -> Option<Self> {
        if head.method != Method::POST || head.uri.query().is_some() {
            return None;
        }
        let path = head.uri.path().strip_prefix("/v1/namespaces/")?;
        let (path, verb) = path.rsplit_once('/')?;
        let verb = match verb {
            "acquire" => Verb::Acquire,
            "renew" => Verb::Renew,
            "release" => Verb::Release,
            _ => return None,
        };
        let (namespace, lease) = path.split_once("/leases/")?;
        // A name that contains a `/` is not valid.
        let key = LeaseKey::of_path(namespace, lease)?;
        Some(Self { verb, key })
    }

    /// Executes the request.
    pub(super) async fn execute(
        &self,
        store: &Store,
        access: &Access,
        caller: Caller,
        request: Request<DrainOnDrop>,
    ) -> JsonResult<LeaseView> {
        let Self { verb, key } = self;
        let (namespace, lease) = key.names();
        let needed = (verb.route().right(), Target::Lease(namespace, lease));
        let limits = store.limits();
        let (head, body) = request.into_parts();
        let (body, limits) = ((Some(&head.headers), body), (limits, limits.max_body_bytes));
        let (caller, body) = read_checked(access, caller, needed, body, limits).await?;
        let caller = &caller;
        match verb {
            // Boxed, because a renewal would hold the memory for this future.
            Verb::Acquire => Box::pin(acquire_as(store, access, caller, key, parse(&body)?)).await,
            Verb::Renew => {
                let request = parse::<RenewRequest>(&body)?;
                operate(store, caller, key, &request.check(&Rules::NATIVE)?, None).await
            }
            Verb::Release => {
                let (operation, reason) = parse::<ReleaseRequest>(&body)?.check()?;
                operate(store, caller, key, &operation, reason).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_acquires_renewals_and_releases_take_the_fast_path() {
        let key = |method: &str, path: &str| {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .body(())
                .unwrap();
            FastRequest::of(&request.into_parts().0)
                .map(|fast| (fast.verb, fast.key.as_str().to_owned()))
        };
        for verb in [Verb::Acquire, Verb::Renew, Verb::Release] {
            let path = verb.route().path();
            let path = path.replace("{namespace}", "ns").replace("{lease}", "job");
            assert_eq!(key("POST", &path), Some((verb, "ns/job".to_owned())));
            assert_eq!(ROUTES[verb.position()].label(), verb.route().label());
        }
        for (method, path) in [
            ("GET", "/v1/namespaces/ns/leases/job/renew"),
            ("POST", "/v1/namespaces/ns/leases/job/renew?a"),
            ("POST", "/v1/namespaces/ns/leases/job/renew/"),
            ("POST", "/v1/namespaces/ns/leases/job/break"),
            ("POST", "/v1/namespaces/ns/leases/job"),
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

//! The check in front of each handler: it accepts a request if the caller has the right of the route.
//!
//! A body may arrive long after the head, and the right may have been withdrawn meanwhile. So
//! [`answer`] reads the bodies of all requests, and checks the right after the last byte.
//! Handlers run later, with a body in memory and the caller by the present rules: they cannot read
//! a body and act by an earlier check.

use std::pin::pin;

use axum::body::{Body, HttpBody};
use axum::http::Method;
use axum::http::header::CONTENT_LENGTH;
use axum::response::Response;
use futures_util::FutureExt;
use tenure_core::wire::Problem;

use super::body;
use super::call::{Call, Names};
use super::drain::DrainOnDrop;
use super::query::values;
use super::routes::Route;
use super::routes::description::{Kind, Tag};
use crate::access::Target;

/// The object of a route's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetOf {
    Store,
    /// Leases of all namespaces.
    Anywhere,
    /// The `{namespace}` of the path.
    Namespace,
    /// The `{namespace}` and the `{lease}` of the path.
    Lease,
    /// Like `Lease`, but if the lease is named `events`, the request may be about the namespace.
    /// The handler decides, and checks the right to the lease itself.
    LeaseOrEvents,
}

/// Answers the request if its caller has the right of the route. A large answer needs a part of the
/// caller's share. A route without a body reads none.
///
/// A request that waits is not ended here when the caller loses the right: a change that has begun
/// must not be answered with a refusal. Handlers that wait for a lease check the right again.
pub(super) async fn answer(
    route: &'static Route,
    mut call: Call<'_>,
    body: DrainOnDrop,
) -> Result<Response, Problem> {
    let (store, head) = (call.store, call.head);
    let (right, target) = (route.right, route.target.of(call.names));
    call.caller.check(right, target)?;
    match route.body {
        None => drop(body),
        Some(described) => {
            if described.is_required {
                body::check_content_type(&head.headers)?;
            }
            let limits = store.limits();
            let most = described.max_bytes.unwrap_or(limits.max_body_bytes);
            let mut body = pin!(body::read(body, limits, most));
            call.body = match body.as_mut().now_or_never() {
                // No time has passed since the check.
                Some(body) => body?,
                None => {
                    let body = body.await?;
                    call.caller = call.access.check_again(&call.caller, right, target)?;
                    body
                }
            };
        }
    }
    let permit = match route.kind {
        Kind::Large => Some(store.large_answer(&call.caller.tenant())?),
        Kind::Renewals => Some(store.large_renewal(&call.caller.tenant()).await),
        _ => None,
    };
    // The page reads its own query, in the browser.
    if head.uri.query().is_some() && route.query.is_empty() && route.tag != Tag::Page {
        route.target.check_names(&call)?;
        let [] = values(&head.uri, &[])?;
    }
    let mut response = (route.handler)(call).await;
    if let Some(permit) = permit {
        response = permit.hold(response).await;
    }
    if head.method == Method::HEAD {
        if let Some(length) = response.body().size_hint().exact() {
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        *response.body_mut() = Body::empty();
    }
    Ok(response)
}

impl TargetOf {
    fn of<'a>(self, names: &'a Names<'_>) -> Target<'a> {
        match self {
            Self::Store => Target::Store,
            Self::Anywhere => Target::Anywhere,
            Self::Namespace => Target::Namespace(&names.namespace),
            Self::LeaseOrEvents if names.lease == "events" => Target::Namespace(&names.namespace),
            Self::Lease | Self::LeaseOrEvents => Target::Lease(&names.namespace, &names.lease),
        }
    }

    /// Checks the names in the path of a request.
    fn check_names(self, call: &Call<'_>) -> Result<(), Problem> {
        match self {
            Self::Store | Self::Anywhere => Ok(()),
            Self::Namespace => call.namespace().map(drop),
            Self::Lease | Self::LeaseOrEvents => call.lease().map(drop),
        }
    }
}

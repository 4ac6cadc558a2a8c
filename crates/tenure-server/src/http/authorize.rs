//! The check in front of each handler: it accepts a request if the caller has the right of the route.
//!
//! A body may arrive long after the head, and the right may have been withdrawn meanwhile. So
//! [`read_checked`] reads the bodies of all requests, and checks the right after the last byte.
//! Handlers run later, with a body in memory and the caller by the present rules: they cannot read
//! a body and act by an earlier check.

use std::pin::pin;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use futures_util::FutureExt;
use tenure_core::wire::Problem;

use super::body;
use super::call::{Call, Names};
use super::drain::DrainOnDrop;
use super::query::values;
use super::routes::Route;
use super::routes::description::{Kind, Tag};
use crate::access::{Access, Caller, Right, Target};
use crate::config::Limits;

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

/// Reads the body of a request if the caller has the right. Returns the body, and the caller by the
/// rules that are in force after the last byte. `most` is the maximum size of the body. A body with
/// `headers` must be declared as JSON in them.
pub(super) async fn read_checked<B>(
    access: &Access,
    caller: Caller,
    (right, target): (Right, Target<'_>),
    (headers, body): (Option<&HeaderMap>, B),
    (limits, most): (&Limits, usize),
) -> Result<(Caller, Bytes), Problem>
where
    B: HttpBody<Data = Bytes, Error = axum::Error>,
{
    caller.check(right, target)?;
    headers.map_or(Ok(()), body::check_content_type)?;
    let mut body = pin!(body::read(body, limits, most));
    match body.as_mut().now_or_never() {
        // No time has passed since the check.
        Some(body) => Ok((caller, body?)),
        None => {
            let body = body.await?;
            Ok((access.check_again(&caller, right, target)?, body))
        }
    }
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
    match route.body {
        None => {
            call.caller.check(right, target)?;
            drop(body);
        }
        Some(described) => {
            let limits = store.limits();
            let most = described.max_bytes.unwrap_or(limits.max_body_bytes);
            let body = (described.is_required.then_some(&head.headers), body);
            let (right, limits) = ((right, target), (limits, most));
            (call.caller, call.body) =
                read_checked(call.access, call.caller, right, body, limits).await?;
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

//! The request path: the checks of every request, in this order.
//!
//! ```text
//! connection -> head -> origin -> limit of connections -+-> fast path (renewals)
//!                                                       +-> routes
//!                                                       +-> another protocol
//! ```
//!
//! The service also drains unread bodies and converts a panic into a response. A further check that
//! applies to all requests belongs here, because no other module can call a handler.

use std::any::Any;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tenure_core::wire::{Code, Problem};
use tower_service::Service as _;
use tracing::error;

use super::drain::DrainOnDrop;
use super::head::check_head;
use super::origin::check_origin;
use super::problem::ProblemResponse;
use super::protocol::Protocol;
use super::{fast_path, routes};
use crate::Store;
use crate::overflow::OverflowPermit;
use crate::panics;

/// The service that answers the requests of all connections.
#[derive(Debug)]
pub(crate) struct HttpService {
    pub(crate) store: Store,
    routes: Router,
    protocol: Option<Arc<dyn Protocol>>,
}

/// The connection on which a request arrives.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// The address of the client, if it is known.
    pub(crate) client: Option<IpAddr>,
    /// The permit of a connection over the limit. Such a connection may renew leases, so that a
    /// holder keeps its lease however many other clients connect. It may also check liveness, so
    /// that a busy store is not killed.
    pub(crate) over: Option<Arc<OverflowPermit>>,
}

impl HttpService {
    pub(crate) fn new(store: Store, protocol: Option<Arc<dyn Protocol>>) -> Self {
        Self {
            routes: routes::routes(store.clone()),
            store,
            protocol,
        }
    }

    /// Answers a request. Nothing else calls the handlers.
    pub(crate) async fn serve_request(&self, source: &Source, request: Request) -> Response {
        let (head, body) = request.into_parts();
        let protocol = self.protocol_of(&head);
        let answer = self.check_and_handle(source, protocol, head, body);
        let answer = AssertUnwindSafe(answer).catch_unwind().await;
        let mut response = answer.unwrap_or_else(|panic| refuse(protocol, None, panicked(&*panic)));
        if source.over.is_some() {
            close_after(&mut response);
        }
        response
    }

    async fn check_and_handle(
        &self,
        source: &Source,
        protocol: Option<&dyn Protocol>,
        head: Parts,
        body: Body,
    ) -> Response {
        if let Err(problem) = check_head(&head, self.store.limits().max_header_bytes) {
            let is_malformed = problem.code == Code::Malformed;
            let mut response = refuse(protocol, Some(&head), problem);
            if is_malformed {
                // The head may not define where its request ends, so the server reads nothing after
                // it.
                close_after(&mut response);
            }
            return response;
        }
        let body = DrainOnDrop {
            body: Some(body),
            until: Instant::now() + self.store.limits().request_time,
            expects_continue: head.headers.contains_key(EXPECT),
            over: source.over.clone(),
        };
        let checked = check_origin(&head.method, &head.headers)
            .and_then(|()| self.check_load(source, protocol, &head));
        if let Err(problem) = checked {
            return refuse(protocol, Some(&head), problem);
        }
        let renewal = fast_path::renewal(&head);
        let request = Request::from_parts(head, body);
        if let Some(protocol) = protocol {
            return protocol.serve(request.map(Body::new), source.client).await;
        }
        if let Some(key) = renewal {
            let renewed = fast_path::renew(&self.store, &key, request).await;
            return renewed.into_response();
        }
        let Ok(response) = self.routes.clone().call(request.map(Body::new)).await;
        response
    }

    /// Returns the protocol of the request, unless the request is for the native API.
    fn protocol_of(&self, head: &Parts) -> Option<&dyn Protocol> {
        let protocol = self.protocol.as_deref()?;
        (!routes::is_native(head.uri.path())).then_some(protocol)
    }

    fn check_load(
        &self,
        source: &Source,
        protocol: Option<&dyn Protocol>,
        head: &Parts,
    ) -> Result<(), Problem> {
        let is_served = source.over.is_none()
            || protocol.map_or_else(
                || routes::is_essential(head),
                |protocol| protocol.is_renewal(head),
            );
        if is_served {
            return Ok(());
        }
        let most = self.store.limits().max_connections;
        Err(Problem::new(
            Code::OverLimit,
            format!("the store has more than {most} connections, at most {most} are allowed"),
        ))
    }
}

/// Makes the server close the connection after this response.
fn close_after(response: &mut Response) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
}

fn refuse(protocol: Option<&dyn Protocol>, head: Option<&Parts>, problem: Problem) -> Response {
    match protocol {
        Some(protocol) => protocol.refuse(head, problem),
        None => ProblemResponse(problem).into_response(),
    }
}

/// Converts a panic into a problem: a bug of the store ends one request and nothing else.
fn panicked(panic: &(dyn Any + Send)) -> Problem {
    let error = panics::text(panic);
    error!(error, "a request failed because of a bug in the store");
    Problem::new(Code::Internal, "see the store's log")
}

#[cfg(test)]
mod tests;

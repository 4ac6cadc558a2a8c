//! The request path: the checks of every request, in this order.
//!
//! ```text
//! connection -> head -> origin -> limit of connections -+-> fast path (renewals)
//!                                                       +-> routes
//!                                                       +-> another protocol
//! ```
//!
//! The service drains unread bodies and turns a panic into an answer. Every further check of all
//! requests belongs here: no other module can reach a handler.

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

/// Answers the requests of all connections.
#[derive(Debug)]
pub(crate) struct HttpService {
    pub(crate) store: Store,
    routes: Router,
    protocol: Option<Arc<dyn Protocol>>,
}

/// The connection that a request comes over.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Where it comes from, if that is known.
    pub(crate) client: Option<IpAddr>,
    /// The permit of a connection over the limit. It may renew leases, because a holder keeps its
    /// lease however many others connect, and ask for signs of life, because a busy store must not
    /// be killed.
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

    /// Answers a request. The only caller of the handlers.
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
                // The head may not say where its request ends, so nothing after it is read.
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

    /// The protocol that the request is for, unless it is for the native API.
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

/// Lets the server close the connection after this response.
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

/// A bug of the store ends one request and nothing else.
fn panicked(panic: &(dyn Any + Send)) -> Problem {
    let error = panics::text(panic);
    error!(error, "a request failed by a fault in the store");
    Problem::new(Code::Internal, "see the store's log")
}

#[cfg(test)]
mod tests;

//! The request path: what every request passes, in this order, whatever it asks for.
//!
//! ```text
//! connection -> head -> guard -> limit of connections -+-> fast path (renewals)
//!                                                      +-> routes
//!                                                      +-> another protocol
//! ```
//!
//! The service drains unread bodies and turns a panic into an answer. Every further check of all
//! requests belongs here: no other module can reach a handler. The guard finds out who sends the
//! request, and each route asks whether that caller has the right to it.

mod guard;

use std::any::Any;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request};
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Router};
use futures_util::FutureExt;
use tenure_core::wire::{Code, Problem};
use tower_service::Service as _;
use tracing::error;

use super::auditor::ClientAddress;
use super::drain::{DrainOnDrop, Rest};
use super::head::check_head;
use super::problem::ProblemResponse;
use super::protocol::Protocol;
use super::{fast_path, routes};
use crate::Store;
use crate::access::Access;
use crate::audit::Audit;
use crate::panics;

/// Answers the requests of all connections.
#[derive(Debug)]
pub(crate) struct HttpService {
    store: Store,
    access: Access,
    audit: Audit,
    routes: Router,
    protocol: Option<Arc<dyn Protocol>>,
}

/// The connection that a request comes over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Where it comes from, if that is known.
    pub(crate) client: Option<IpAddr>,
    pub(crate) load: Load,
}

/// Whether a connection is within the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Within,
    /// It may renew leases, because a holder keeps its lease however many others connect, and ask
    /// for signs of life, because a busy store must not be killed.
    Over,
    /// The same, because its address has as many connections as it may have.
    OverForAddress,
}

impl HttpService {
    pub(crate) fn new(
        store: Store,
        access: Access,
        audit: Audit,
        protocol: Option<Arc<dyn Protocol>>,
    ) -> Self {
        Self {
            routes: routes::router(store.clone(), &access, audit.clone()),
            store,
            access,
            audit,
            protocol,
        }
    }

    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    /// Whether requests need to know where they come from.
    pub(crate) fn needs_client(&self) -> bool {
        self.protocol.is_some() || self.access.is_guarded()
    }

    /// Answers a request. The only caller of the handlers.
    pub(crate) async fn serve_request<B>(&self, source: Source, request: Request<B>) -> Response
    where
        B: Rest,
        B::Error: Into<BoxError>,
    {
        let (head, body) = request.into_parts();
        let protocol = self.protocol_of(&head);
        let answer = self.check_and_handle(source, protocol, head, body);
        match AssertUnwindSafe(answer).catch_unwind().await {
            Ok(response) => response,
            Err(panic) => refuse(protocol, None, panicked(&*panic)),
        }
    }

    async fn check_and_handle<B>(
        &self,
        source: Source,
        protocol: Option<&dyn Protocol>,
        mut head: Parts,
        body: B,
    ) -> Response
    where
        B: Rest,
        B::Error: Into<BoxError>,
    {
        if let Err(problem) = check_head(&head, self.store.limits().max_header_bytes) {
            let is_malformed = problem.code == Code::Malformed;
            let mut response = refuse(protocol, Some(&head), problem);
            if is_malformed {
                // The head may not say where its request ends, so nothing after it is read.
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            return response;
        }
        let expects_continue = head.headers.contains_key(EXPECT);
        let body = DrainOnDrop::new(body, self.drain_time(source.load), expects_continue);
        if let Some(protocol) = protocol {
            let checked = guard::admit_foreign(&self.access, &head)
                .and_then(|()| self.check_load(source.load, Some(protocol), &head));
            if let Err(problem) = checked {
                return protocol.refuse(Some(&head), problem);
            }
            let request = Request::from_parts(head, Body::new(body));
            return protocol.serve(request, source.client).await;
        }
        let admitted = guard::admit(&self.access, &self.audit, &head, source.client);
        let admitted = admitted.and_then(|caller| {
            self.check_load(source.load, None, &head)?;
            Ok(caller)
        });
        let caller = match admitted {
            Ok(caller) => caller,
            Err(problem) => return refuse(None, Some(&head), problem),
        };
        if let Some(key) = fast_path::renewal(&head) {
            return fast_path::renew(&self.store, &caller, &key, head, body).await;
        }
        head.extensions.insert(caller);
        head.extensions.insert(ClientAddress(source.client));
        let Ok(response) = self
            .routes
            .clone()
            .call(Request::from_parts(head, body))
            .await;
        response
    }

    /// The protocol that the request is for, unless it is for the native API.
    fn protocol_of(&self, head: &Parts) -> Option<&dyn Protocol> {
        let protocol = self.protocol.as_deref()?;
        (!routes::is_native(head.uri.path())).then_some(protocol)
    }

    /// How long the rest of a body is read after a refusal. Over the limit it is not read at all:
    /// the connection is there for one request, and must not be held by a body that never comes.
    fn drain_time(&self, load: Load) -> Duration {
        match load {
            Load::Within => self.store.limits().request_time,
            Load::Over | Load::OverForAddress => Duration::ZERO,
        }
    }

    fn check_load(
        &self,
        load: Load,
        protocol: Option<&dyn Protocol>,
        head: &Parts,
    ) -> Result<(), Problem> {
        let is_served = load == Load::Within
            || protocol.map_or_else(
                || routes::is_essential(head),
                |protocol| protocol.is_renewal(head),
            );
        if is_served {
            return Ok(());
        }
        let limits = self.store.limits();
        let (whose, most) = match load {
            Load::OverForAddress => ("this address", limits.max_connections_per_address),
            _ => ("the store", limits.max_connections),
        };
        Err(Problem::new(
            Code::OverLimit,
            format!("{whose} has more than {most} connections, at most {most} are allowed"),
        ))
    }
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

//! The request path: the checks of every request, in this order.
//!
//! ```text
//! connection -> head -> guard -> limit of connections -+-> route
//!                                                      +-> another protocol
//! ```
//!
//! The service also drains unread bodies, converts a panic into a response, and counts the request. A
//! further check that applies to all requests belongs here, because no other module can call a
//! handler. The guard identifies the caller of a request, and [`authorize`](super::authorize) checks
//! whether that caller has the right of the route.

mod guard;
mod span;

use std::any::Any;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, ETAG, EXPECT};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use futures_util::FutureExt;
use tenure_core::wire::{Code, OWNERSHIP_HEADER, Problem, STORE_HEADER};
use tracing::error;

use super::authorize;
use super::call::{Call, Names};
use super::drain::DrainOnDrop;
use super::events::EVENT_STREAM;
use super::head::check_head;
use super::metrics::Scrape;
use super::problem;
use super::protocol::Protocol;
use super::request_id::{LazyRequestId, RequestId};
use super::routes::{self, Found, Serves};
use crate::Store;
use crate::access::{
    Access, ClientAuthorities, LastCredential, PresentedCertificate, TrustedProxies,
};
use crate::audit::Audit;
use crate::metrics::{ConnectionRefusal, MetricsConfig, Waited, measure};
use crate::model::TraceId;
use crate::overflow::OverflowPermit;
use crate::panics;
use crate::store::ServedStore;
use crate::tls::Tls;
use span::RequestSpan;

pub use span::set_remote_parent;

/// The header of every answer with the id of the store.
const STORE: HeaderName = HeaderName::from_static(STORE_HEADER);

/// The header of every answer of a server of a cluster.
const OWNERSHIP: HeaderName = HeaderName::from_static(OWNERSHIP_HEADER);

/// The header with which a server forbids nginx to collect an answer before it passes it on.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The service that answers the requests of all connections.
#[derive(Debug)]
pub(crate) struct HttpService {
    pub(crate) stores: ServedStore,
    access: Access,
    audit: Audit,
    proxies: TrustedProxies,
    serves: Serves,
    protocol: Option<Arc<dyn Protocol>>,
    /// The metrics, which count each request.
    pub(crate) scrape: Arc<Scrape>,
}

/// The parts of a service.
#[derive(Debug)]
pub(crate) struct ServiceConfig {
    pub(crate) stores: ServedStore,
    pub(crate) access: Access,
    pub(crate) audit: Audit,
    pub(crate) proxies: TrustedProxies,
    pub(crate) protocol: Option<Arc<dyn Protocol>>,
    /// The certificate of the server, for its metrics.
    pub(crate) tls: Option<Tls>,
    pub(crate) metrics: MetricsConfig,
}

impl ServiceConfig {
    /// Creates the configuration of a service with the native API only.
    pub(crate) fn new(stores: ServedStore, access: Access) -> Self {
        Self {
            stores,
            access,
            audit: Audit::none(),
            proxies: TrustedProxies::default(),
            protocol: None,
            tls: None,
            metrics: MetricsConfig::default(),
        }
    }
}

/// The connection on which a request arrives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    /// The address of the client, or of a proxy in front of it, if it is known.
    pub(crate) client: Option<IpAddr>,
    /// The certificate that the client presented, valid or not.
    pub(crate) certificate: Option<PresentedCertificate>,
    pub(crate) credential: Arc<LastCredential>,
    /// The permit of a connection over the limit. Such a connection may renew leases, so that a
    /// holder keeps its lease however many other clients connect. It may also check liveness, so
    /// that a busy store is not killed.
    pub(crate) over: Option<Arc<OverflowPermit>>,
    /// `true` if the connection is over the limit of its address, but not over the limit of the
    /// store.
    pub(crate) is_over_for_address: bool,
}

/// The data of a request that its whole path uses.
struct RequestContext<'a> {
    source: &'a Source,
    store: &'a Store,
    id: &'a LazyRequestId,
    span: &'a RequestSpan,
}

impl HttpService {
    pub(crate) fn new(config: ServiceConfig) -> Self {
        let ServiceConfig {
            stores,
            access,
            audit,
            proxies,
            protocol,
            tls,
            metrics,
        } = config;
        let label = protocol.as_ref().map(|protocol| protocol.label());
        let scrape = Scrape::new(metrics, &stores, &access, &audit, tls, label);
        Self {
            serves: Serves::All,
            stores,
            access,
            audit,
            proxies,
            protocol,
            scrape: Arc::new(scrape),
        }
    }

    /// Creates the service of the listener for metrics, with its own rules of access.
    pub(crate) fn for_metrics(&self, access: Access) -> Self {
        Self {
            serves: Serves::Metrics,
            stores: self.stores.clone(),
            access,
            audit: self.audit.clone(),
            proxies: self.proxies.clone(),
            protocol: None,
            scrape: Arc::clone(&self.scrape),
        }
    }

    /// Returns whether connections from this address carry requests of many clients.
    pub(crate) fn is_trusted_proxy(&self, address: IpAddr) -> bool {
        self.proxies.contains(address)
    }

    /// Answers a request. Nothing else calls the handlers.
    pub(crate) async fn serve_request(&self, source: &Source, request: Request) -> Response {
        let began = Instant::now();
        let store = self.stores.current();
        let (head, body) = request.into_parts();
        let protocol = self.protocol_of(&head);
        let found = match protocol {
            Some(_) => Found::default(),
            None => routes::find(&head.method, head.uri.path()),
        };
        let (label, is_change) = match protocol {
            Some(protocol) => {
                let is_change = !head.method.is_safe() && !protocol.is_renewal(&head);
                (routes::PROTOCOL, is_change)
            }
            None => (found.label(), found.is_change(&head.method)),
        };
        let id = LazyRequestId::of(&head.headers);
        let is_read = head.method.is_safe();
        let span = RequestSpan::begin(&head, &found, is_change);
        let context = RequestContext {
            source,
            store: &store,
            id: &id,
            span: &span,
        };
        let limits = store.limits();
        let answer = match check_head(&head, limits.max_header_bytes) {
            Err(problem) => {
                let is_malformed = problem.code == Code::Malformed;
                let mut response = refuse(protocol, Some(&head), problem);
                if is_malformed {
                    // The head may not define where its request ends, so the server reads nothing
                    // after it.
                    close_after(&mut response);
                }
                Ok(response)
            }
            Ok(()) => {
                let body = DrainOnDrop {
                    body: Some(body),
                    until: began + limits.request_time,
                    expects_continue: head.headers.contains_key(EXPECT),
                    over: source.over.clone(),
                };
                match protocol {
                    Some(protocol) => {
                        let answer = self.serve_foreign(protocol, context, head, body);
                        AssertUnwindSafe(answer).catch_unwind().await
                    }
                    None => {
                        let answer = self.serve_native(context, &head, &found, body);
                        AssertUnwindSafe(answer).catch_unwind().await
                    }
                }
            }
        };
        let mut response =
            answer.unwrap_or_else(|panic| refuse(protocol, None, panicked(&*panic, id.id())));
        if protocol.is_none() {
            id.answer(&mut response);
            let headers = response.headers_mut();
            if let Some(id) = store.id_header() {
                headers.insert(STORE, id);
            }
            if let Some(ownership) = store.ownership_header() {
                headers.insert(OWNERSHIP, ownership);
            }
            if is_read {
                forbid_keeping(&mut response);
            }
        }
        span.record_answer(&response, &id);
        let is_standby = response.extensions().get() == Some(&Code::NotActive);
        if source.over.is_some() || is_standby {
            close_after(&mut response);
        }
        self.count(label, &response, began);
        response
    }

    /// Counts a request that was answered.
    fn count(&self, route: usize, response: &Response, began: Instant) {
        let (status, extensions) = (response.status(), response.extensions());
        if let Some(requests) = &self.scrape.requests {
            let waited = extensions
                .get()
                .map_or(Duration::ZERO, |Waited(time)| *time);
            let duration = began.elapsed().saturating_sub(waited);
            requests.count(route, status.as_u16(), duration);
        }
        if let (false, Some(code)) = (status.is_success(), extensions.get()) {
            self.scrape.refusals.add(*code);
        }
    }

    async fn serve_foreign(
        &self,
        protocol: &dyn Protocol,
        RequestContext {
            store,
            source,
            span,
            ..
        }: RequestContext<'_>,
        head: Parts,
        body: DrainOnDrop,
    ) -> Response {
        let checked = guard::admit_foreign(&self.access, &head)
            .and_then(|()| self.check_load(store, source, || protocol.is_renewal(&head)));
        if let Err(problem) = checked {
            return refuse(Some(protocol), Some(&head), problem);
        }
        let request = Request::from_parts(head, Body::new(body));
        let answer = protocol.serve(request, source.client);
        TraceId::scope(span.trace(), answer).await
    }

    async fn serve_native(
        &self,
        RequestContext {
            store,
            source,
            id,
            span,
        }: RequestContext<'_>,
        head: &Parts,
        found: &Found<'_>,
        body: DrainOnDrop,
    ) -> Response {
        // The limit of wrong credentials counts the client and not its proxy. Otherwise one client
        // with a wrong token would use up the failures of all clients of the proxy, and the check
        // of a valid web token that the store does not know yet would be delayed. The drawback: a
        // proxy that does not replace or extend the header lets its clients choose their addresses.
        let client = source
            .client
            .map(|peer| self.proxies.client(peer, &head.headers));
        let (access, audit) = (&self.access, &self.audit);
        let admitted = guard::admit(access, audit, (head, found), source, client, id);
        let admitted = admitted.and_then(|caller| {
            self.check_load(store, source, || found.is_essential())?;
            Ok(caller)
        });
        let caller = match admitted {
            Ok(caller) => caller,
            Err(problem) => {
                let mut response = problem::response(&problem);
                let has_header = head.headers.contains_key(AUTHORIZATION);
                if !has_header && access.asks_for_certificates() {
                    // Only another connection can have another certificate, or a certificate at
                    // all.
                    close_after(&mut response);
                }
                return response;
            }
        };
        span.record_caller(&caller);
        if found.is_change(&head.method) {
            // The answer contains the id.
            id.id();
        }
        let route = match found.served(self.serves, head) {
            Ok(route) => route,
            Err(refusal) => return refusal,
        };
        let call = Call {
            store,
            access,
            audit,
            scrape: &self.scrape,
            head,
            names: &Names::of(found),
            caller,
            client,
            id,
            body: Bytes::new(),
        };
        let answer = measure(TraceId::scope(
            span.trace(),
            authorize::answer(route, call, body),
        ));
        let (answer, waited) = answer.await;
        let mut response = answer.unwrap_or_else(|problem| problem::response(&problem));
        if waited != Waited::default() {
            response.extensions_mut().insert(waited);
        }
        response
    }

    /// Returns the authorities of client certificates, if the store asks clients for certificates.
    pub(crate) fn client_authorities(&self) -> Option<Arc<ClientAuthorities>> {
        self.access.client_authorities()
    }

    /// Returns the protocol of the request, unless the request is for the native API.
    fn protocol_of(&self, head: &Parts) -> Option<&dyn Protocol> {
        let protocol = self.protocol.as_deref()?;
        (!routes::is_native(head.uri.path())).then_some(protocol)
    }

    fn check_load(
        &self,
        store: &Store,
        source: &Source,
        is_essential: impl FnOnce() -> bool,
    ) -> Result<(), Problem> {
        if source.over.is_none() || is_essential() {
            return Ok(());
        }
        let limits = store.limits();
        let (whose, most, refusal) = match source.is_over_for_address {
            true => (
                "this address",
                limits.max_connections_per_address,
                ConnectionRefusal::Address,
            ),
            false => (
                "the store",
                limits.max_connections,
                ConnectionRefusal::Store,
            ),
        };
        self.scrape.connections.refused.add(refusal);
        Err(Problem::new(
            Code::OverLimit,
            format!("{whose} has more than {most} connections, at most {most} are allowed"),
        ))
    }
}

/// Forbids browsers and proxies to keep an answer with data. The files of the page have tags and no
/// data. A proxy must pass each event of a stream on at once, so it must not compress or collect
/// them either.
fn forbid_keeping(response: &mut Response) {
    let headers = response.headers_mut();
    let content_type = headers.get(CONTENT_TYPE);
    let is_stream = content_type.is_some_and(|value| value == EVENT_STREAM);
    if is_stream {
        let value = HeaderValue::from_static("no-store, no-transform");
        headers.insert(CACHE_CONTROL, value);
        headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    } else if !headers.contains_key(ETAG) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

/// Makes the server close the connection after this response.
fn close_after(response: &mut Response) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
}

fn refuse(protocol: Option<&dyn Protocol>, head: Option<&Parts>, problem: Problem) -> Response {
    let Some(protocol) = protocol else {
        return problem::response(&problem);
    };
    let code = problem.code;
    let mut response = protocol.refuse(head, problem);
    response.extensions_mut().insert(code);
    response
}

/// Converts a panic into a problem: a bug of the store ends one request and nothing else.
fn panicked(panic: &(dyn Any + Send), request: &RequestId) -> Problem {
    let error = panics::text(panic);
    error!(%request, error, "a request failed because of a bug in the store");
    Problem::new(Code::Internal, "see the store's log")
}

#[cfg(test)]
mod tests;

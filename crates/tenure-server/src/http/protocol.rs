//! Another protocol on the same listener.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;

use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::Response;
use tenure_core::wire::Problem;

/// A protocol that a [`Server`](crate::Server) serves beside the native API, on all paths that are
/// not [native](crate::is_native).
///
/// The server checks the requests of the protocol like native requests before it passes them on:
/// the head, the origin, the host and the limit on connections. The protocol authenticates its
/// requests; [`BearerTokens`](crate::access::BearerTokens) checks tokens for it. Any crate may
/// implement this trait for another protocol.
pub trait Protocol: fmt::Debug + Send + Sync + 'static {
    /// Returns the value of the label `route` of the protocol's requests in metrics.
    fn label(&self) -> &'static str;

    /// Returns whether the request renews a lease. On a connection over the limit all other
    /// requests are refused.
    fn is_renewal(&self, head: &Parts) -> bool;

    /// Answers a request. `client` is the address of the client, if it is known. After a panic the
    /// server answers with [`Protocol::refuse`].
    fn serve(
        &self,
        request: Request,
        client: Option<IpAddr>,
    ) -> Pin<Box<dyn Future<Output = Response> + Send>>;

    /// Returns the response to a request that the server refuses before [`Protocol::serve`], in the
    /// format of this protocol. After a panic the head is no longer known.
    fn refuse(&self, head: Option<&Parts>, problem: Problem) -> Response;

    /// Returns whether the protocol relies on the TLS of the server. If so, the server does not
    /// serve it without TLS.
    fn needs_tls(&self) -> bool;
}

//! Another protocol on the same listener.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;

use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::Response;
use tenure_core::wire::Problem;

/// A protocol that a [`Server`](crate::Server) speaks beside the native API, on all paths that are
/// not [native](crate::is_native).
///
/// Its requests pass the same checks as native ones before they come here: the head, the origin, the
/// host and the limit of connections. It authenticates them itself;
/// [`BearerTokens`](crate::access::BearerTokens) checks tokens for it. It is open: implement it for
/// any protocol.
pub trait Protocol: fmt::Debug + Send + Sync + 'static {
    /// Whether the request renews a lease. Over the limit of connections other requests are
    /// refused.
    fn is_renewal(&self, head: &Parts) -> bool;

    /// Answers a request. `client` is the address that the connection comes from, if it is known. A
    /// panic is answered with [`Protocol::refuse`].
    fn serve(
        &self,
        request: Request,
        client: Option<IpAddr>,
    ) -> Pin<Box<dyn Future<Output = Response> + Send>>;

    /// The response to a request that the server refuses before [`Protocol::serve`], in the form of
    /// this protocol. After a panic the head is not known any more.
    fn refuse(&self, head: Option<&Parts>, problem: Problem) -> Response;

    /// Whether the protocol relies on the TLS of the server. Then it is not served without.
    fn needs_tls(&self) -> bool;
}

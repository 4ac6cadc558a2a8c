//! How many connections are served, and what becomes of those over the limit.
//!
//! New connections never harm those that exist. A connection over the limit gets an answer to its
//! first request and is closed. A renewal succeeds there: a leader that has lost its connection
//! keeps its lease although the store is full.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request};
use axum::response::Response;
use axum_server::accept::Accept;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

use crate::head_deadline::{ConnectionState, HeadDeadline};
use crate::http::{HttpService, Load, Rest, Source};
use crate::overflow::{Overflow, OverflowPermit, Stream};
use crate::per_address::{Counted, PerAddress};

/// Accepts connections, up to the limit and some over it.
#[derive(Clone, Debug)]
pub(crate) struct Acceptor {
    permits: Arc<Semaphore>,
    per_address: PerAddress,
    overflow: Overflow,
    http: Arc<HttpService>,
    /// How long data may stay unacknowledged by the client: as long as a connection may be idle. A
    /// watcher may pause for so long; it costs one connection of the limit.
    send_time: Duration,
    head_time: Duration,
}

impl Acceptor {
    pub(crate) fn new(http: HttpService) -> Self {
        let limits = http.store().limits();
        Self {
            permits: Arc::new(Semaphore::new(limits.max_connections)),
            per_address: PerAddress::new(limits.max_connections_per_address),
            head_time: limits.head_time,
            overflow: Overflow::new(limits.connections_over()),
            send_time: limits.header_time,
            http: Arc::new(http),
        }
    }

    fn admit(
        &self,
        stream: TcpStream,
        client: Option<IpAddr>,
    ) -> io::Result<(Stream, ConnectionService)> {
        let (permit, load) = self.permit(client)?;
        let over = match &permit {
            Permit::Within { .. } => None,
            Permit::Over(permit) => Some(Arc::clone(permit)),
        };
        let state = Arc::<ConnectionState>::default();
        let head = HeadDeadline::new(Arc::clone(&state), self.head_time);
        let connection = Connection {
            http: Arc::clone(&self.http),
            source: Source { client, load },
            state,
            permit,
        };
        let service = ConnectionService(Arc::new(connection));
        Ok((Stream::new(stream, head, over), service))
    }

    /// The right to a connection. Over one of the limits it is for one request.
    fn permit(&self, client: Option<IpAddr>) -> io::Result<(Permit, Load)> {
        let over = |load| match self.overflow.enter() {
            Some(permit) => Ok((Permit::Over(permit), load)),
            // Closed without an answer.
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        };
        let address = client.filter(|_| self.per_address.is_limited());
        let counted = address.map(|address| self.per_address.count(address));
        let Some(counted) = counted.map_or(Some(None), |counted| counted.map(Some)) else {
            return over(Load::OverForAddress);
        };
        match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => {
                let permit = Permit::Within {
                    _permit: permit,
                    _counted: counted,
                };
                Ok((permit, Load::Within))
            }
            Err(_) => over(Load::Over),
        }
    }
}

/// Each connection gets a service of its own, in place of `S`.
impl<S> Accept<TcpStream, S> for Acceptor {
    type Stream = Stream;
    type Service = ConnectionService;
    type Future = Ready<io::Result<(Stream, ConnectionService)>>;

    fn accept(&self, stream: TcpStream, _: S) -> Self::Future {
        ready((|| {
            stream.set_nodelay(true)?;
            // The kernel closes a connection whose client takes no responses, or is gone without a
            // word, so that its permit is free again (RFC 5482; Linux and its relatives have it).
            #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
            SockRef::from(&stream).set_tcp_user_timeout(Some(self.send_time))?;
            let client = match self.http.needs_client() || self.per_address.is_limited() {
                true => Some(stream.peer_addr()?.ip()),
                false => None,
            };
            self.admit(stream, client)
        })())
    }
}

/// Serves one connection. The connection holds a clone; when the last is dropped, the permit is
/// free again.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionService(Arc<Connection>);

/// Each connection has its own, so that its handles are counted where no other thread counts.
#[derive(Debug)]
struct Connection {
    http: Arc<HttpService>,
    source: Source,
    state: Arc<ConnectionState>,
    permit: Permit,
}

/// The right to a connection.
#[derive(Debug)]
enum Permit {
    Within {
        _permit: OwnedSemaphorePermit,
        _counted: Option<Counted>,
    },
    /// Over the limit, for one request.
    Over(Arc<OverflowPermit>),
}

impl<B> Service<Request<B>> for ConnectionService
where
    B: Rest,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let connection = Arc::clone(&self.0);
        connection.state.head_received();
        match &self.0.permit {
            Permit::Within { .. } => Box::pin(async move { Ok(connection.serve(request).await) }),
            Permit::Over(permit) => {
                let request = observe_end(request, Arc::clone(permit));
                Box::pin(async move {
                    let mut response = connection.serve(request).await;
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                    Ok(response)
                })
            }
        }
    }
}

impl Connection {
    async fn serve<B>(&self, request: Request<B>) -> Response
    where
        B: Rest,
        B::Error: Into<BoxError>,
    {
        let response = self.http.serve_request(self.source, request).await;
        self.state.answered();
        response
    }
}

/// Tells the permit when the body is dropped: all of it was read, or the rest does not matter any
/// more.
fn observe_end<B>(request: Request<B>, permit: Arc<OverflowPermit>) -> Request<Body>
where
    B: Rest,
    B::Error: Into<BoxError>,
{
    let end = EndOfRequest(permit);
    request.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _ = &end;
            frame
        }))
    })
}

struct EndOfRequest(Arc<OverflowPermit>);

impl Drop for EndOfRequest {
    fn drop(&mut self) {
        let Self(permit) = self;
        permit.request_received();
    }
}

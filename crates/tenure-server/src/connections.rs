//! How many connections are served, and what becomes of those over the limit.
//!
//! Connections that are there never suffer from newcomers. A newcomer over the limit is told so
//! rather than left waiting, but for a renewal: a leader that has lost its connection, and comes
//! back to a full house, keeps its lease.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::Request;
use axum::http::header::EXPECT;
use axum::response::Response;
use axum::{BoxError, Router};
use axum_server::accept::Accept;
use futures_util::future::Either;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

use crate::Store;
use crate::azure;
use crate::http::{self, DrainOnDrop, Rest, Shortcut};

/// Lets connections in, as an [`Accept`].
#[derive(Clone, Debug)]
pub(crate) struct Door {
    seats: Arc<Semaphore>,
    /// Over the limit: those who come to renew, or are told that they are too many.
    standing: Arc<Semaphore>,
    crowded: Router,
    store: Store,
    has_azure: bool,
    max_header_bytes: usize,
    /// How long what was sent may go without being taken: as long as a connection may be idle. A
    /// watcher may pause for so long; what it misses it need not take, so this costs a seat alone.
    send_time: Duration,
}

impl Door {
    pub(crate) fn new(store: &Store, has_azure: bool, crowded: Router) -> Self {
        let limits = store.limits();
        Self {
            seats: Arc::new(Semaphore::new(limits.max_connections)),
            standing: Arc::new(Semaphore::new(limits.connections_over())),
            crowded,
            store: store.clone(),
            has_azure,
            max_header_bytes: limits.max_header_bytes,
            send_time: limits.header_time,
        }
    }

    fn let_in(&self, router: Router, peer: Option<IpAddr>) -> io::Result<Seated> {
        let (seat, router, over) = match Arc::clone(&self.seats).try_acquire_owned() {
            Ok(seat) => (seat, router, false),
            Err(_) => match Arc::clone(&self.standing).try_acquire_owned() {
                Ok(seat) => (seat, self.crowded.clone(), true),
                // Closed without a word.
                Err(_) => return Err(io::ErrorKind::ConnectionRefused.into()),
            },
        };
        Ok(Seated(Arc::new(Connection {
            router,
            over,
            store: self.store.clone(),
            has_azure: self.has_azure,
            peer,
            max_header_bytes: self.max_header_bytes,
            _seat: seat,
        })))
    }
}

impl Accept<TcpStream, Router> for Door {
    type Stream = TcpStream;
    type Service = Seated;
    type Future = Ready<io::Result<(TcpStream, Seated)>>;

    fn accept(&self, stream: TcpStream, router: Router) -> Self::Future {
        ready((|| {
            stream.set_nodelay(true)?;
            // Who takes no answers, or is gone without a word while some are under way, gives its seat
            // back: the kernel closes the connection (RFC 5482; only Linux and its kin have it).
            #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
            SockRef::from(&stream).set_tcp_user_timeout(Some(self.send_time))?;
            // Only shared access signatures ask for it.
            let peer = match self.has_azure {
                true => Some(stream.peer_addr()?.ip()),
                false => None,
            };
            Ok((stream, self.let_in(router, peer)?))
        })())
    }
}

/// What serves one connection. When the last clone is dropped, which the connection has, the seat is
/// free again.
#[derive(Clone, Debug)]
pub(crate) struct Seated(Arc<Connection>);

/// It is the connection's own, so that handles to it are counted where no other thread does.
#[derive(Debug)]
struct Connection {
    router: Router,
    /// Whether it is one of those over the limit.
    over: bool,
    store: Store,
    has_azure: bool,
    peer: Option<IpAddr>,
    max_header_bytes: usize,
    _seat: OwnedSemaphorePermit,
}

impl AsRef<Store> for Seated {
    fn as_ref(&self) -> &Store {
        &self.0.store
    }
}

impl<B> Service<Request<B>> for Seated
where
    Router: Service<Request<DrainOnDrop<B>>, Response = Response, Error = Infallible>,
    B: Rest,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<
        Ready<Result<Response, Infallible>>,
        Either<Shortcut, <Router as Service<Request<DrainOnDrop<B>>>>::Future>,
    >;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // As a router always is.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self(connection) = self;
        let expects_continue = request.headers().contains_key(EXPECT);
        let time = connection.store.limits().request_time;
        let mut request = request.map(|body| DrainOnDrop::new(body, time, expects_continue));
        if let Some(detail) = http::excess(&request, connection.max_header_bytes) {
            let refusal = if connection.has_azure && !azure::is_native(&request) {
                azure::too_large_head(&request, detail)
            } else {
                http::too_large_head(detail)
            };
            return Either::Left(ready(Ok(refusal)));
        }
        Either::Right(match http::renewal(&request) {
            Some(key) if !connection.over => Either::Left(http::renew(self.clone(), key, request)),
            _ => {
                if let Some(peer) = connection.peer {
                    azure::tell_peer(&mut request, peer);
                }
                Either::Right(connection.router.clone().call(request))
            }
        })
    }
}

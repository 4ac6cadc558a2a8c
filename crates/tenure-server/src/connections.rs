//! How many connections are served, and what becomes of those over the limit.
//!
//! Connections that are there never suffer from newcomers. A newcomer over the limit is told so
//! rather than left waiting, but for a renewal: a leader that has lost its connection, and comes
//! back to a full house, keeps its lease.

use std::future::{Ready, ready};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use axum::response::Response;
use axum_server::accept::Accept;
use futures_util::future::Either;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

use crate::Store;
use crate::http;

/// Lets connections in, as an [`Accept`].
#[derive(Clone, Debug)]
pub(crate) struct Door {
    seats: Arc<Semaphore>,
    /// Over the limit: those who come to renew, or are told that they are too many.
    standing: Arc<Semaphore>,
    crowded: Router,
    max_header_bytes: usize,
    /// How long what was sent may go without being taken.
    send_time: Duration,
}

impl Door {
    pub(crate) fn new(store: &Store) -> Self {
        let limits = store.limits();
        Self {
            seats: Arc::new(Semaphore::new(limits.max_connections)),
            standing: Arc::new(Semaphore::new(limits.connections_over())),
            crowded: http::crowded(store.clone()),
            max_header_bytes: limits.max_header_bytes,
            send_time: limits.request_time,
        }
    }

    fn let_in(&self, router: Router) -> io::Result<Seated> {
        let (seat, router) = match Arc::clone(&self.seats).try_acquire_owned() {
            Ok(seat) => (seat, router),
            Err(_) => match Arc::clone(&self.standing).try_acquire_owned() {
                Ok(seat) => (seat, self.crowded.clone()),
                // Closed without a word.
                Err(_) => return Err(io::ErrorKind::ConnectionRefused.into()),
            },
        };
        Ok(Seated {
            router,
            max_header_bytes: self.max_header_bytes,
            _seat: seat.into(),
        })
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
            Ok((stream, self.let_in(router)?))
        })())
    }
}

/// What serves one connection. When the last clone is dropped, which the connection has, the seat is
/// free again.
#[derive(Clone, Debug)]
pub(crate) struct Seated {
    router: Router,
    max_header_bytes: usize,
    _seat: Arc<OwnedSemaphorePermit>,
}

impl<B> Service<Request<B>> for Seated
where
    Router: Service<Request<B>, Response = Response>,
{
    type Response = Response;
    type Error = <Router as Service<Request<B>>>::Error;
    type Future =
        Either<Ready<Result<Response, Self::Error>>, <Router as Service<Request<B>>>::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<B>>::poll_ready(&mut self.router, context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match http::refusal(&request, self.max_header_bytes) {
            Some(refusal) => Either::Left(ready(Ok(refusal))),
            None => Either::Right(self.router.call(request)),
        }
    }
}

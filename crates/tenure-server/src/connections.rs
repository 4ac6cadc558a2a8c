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

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::{HeaderValue, Request};
use axum::response::Response;
use axum::{BoxError, Router};
use axum_server::accept::Accept;
use futures_util::future::Either;
use http_body_util::BodyExt;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

use crate::Store;
use crate::azure;
use crate::http::{self, DrainOnDrop, Rest, Shortcut};
use crate::standing::{Place, Standing, Stream};

/// Lets connections in, as an [`Accept`].
#[derive(Clone, Debug)]
pub(crate) struct Door {
    seats: Arc<Semaphore>,
    /// Over the limit: connections that renew, or are told that they are too many.
    standing: Standing,
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
            standing: Standing::new(limits.connections_over()),
            crowded,
            store: store.clone(),
            has_azure,
            max_header_bytes: limits.max_header_bytes,
            send_time: limits.header_time,
        }
    }

    fn let_in(
        &self,
        stream: TcpStream,
        router: Router,
        peer: Option<IpAddr>,
    ) -> io::Result<(Stream, Seated)> {
        let (seat, router) = match Arc::clone(&self.seats).try_acquire_owned() {
            Ok(seat) => (Seat::Within { _permit: seat }, router),
            Err(_) => match self.standing.enter() {
                Some(place) => (Seat::Over(place), self.crowded.clone()),
                // Closed without a word.
                None => return Err(io::ErrorKind::ConnectionRefused.into()),
            },
        };
        let place = match &seat {
            Seat::Within { .. } => None,
            Seat::Over(place) => Some(Arc::clone(place)),
        };
        let seated = Seated(Arc::new(Connection {
            router,
            store: self.store.clone(),
            has_azure: self.has_azure,
            peer,
            max_header_bytes: self.max_header_bytes,
            seat,
        }));
        Ok((Stream::new(stream, place), seated))
    }
}

impl Accept<TcpStream, Router> for Door {
    type Stream = Stream;
    type Service = Seated;
    type Future = Ready<io::Result<(Stream, Seated)>>;

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
            self.let_in(stream, router, peer)
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
    store: Store,
    has_azure: bool,
    peer: Option<IpAddr>,
    max_header_bytes: usize,
    seat: Seat,
}

/// What a connection takes of the limit.
#[derive(Debug)]
enum Seat {
    Within {
        _permit: OwnedSemaphorePermit,
    },
    /// One over the limit: it is answered once.
    Over(Arc<Place>),
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
        let mut refusal = connection.refusal(&request);
        if matches!(connection.seat, Seat::Within { .. })
            && let Some(refusal) = refusal.take()
        {
            // Its head may not even say where its body ends, so nothing more is read.
            return Either::Left(ready(Ok(refusal)));
        }
        let expects_continue = request.headers().contains_key(EXPECT);
        let time = connection.drain_time();
        let mut request = request.map(|body| DrainOnDrop::new(body, time, expects_continue));
        if let Some(peer) = connection.peer {
            azure::tell_peer(&mut request, peer);
        }
        if let Seat::Over(place) = &connection.seat {
            let (place, router) = (Arc::clone(place), connection.router.clone());
            return Either::Right(Either::Left(answer_once(place, router, refusal, request)));
        }
        Either::Right(match http::renewal(&request) {
            Some(key) => Either::Left(http::renew(self.clone(), key, request)),
            None => Either::Right(connection.router.clone().call(request)),
        })
    }
}

impl Connection {
    /// How long the rest of a body is read after a refusal. Over the limit not at all: the place is for
    /// the next renewal, and must not be held by a body that never comes.
    fn drain_time(&self) -> Duration {
        match self.seat {
            Seat::Within { .. } => self.store.limits().request_time,
            Seat::Over(_) => Duration::ZERO,
        }
    }

    /// The answer to a request whose head is not taken, whatever it asks for.
    fn refusal<B>(&self, request: &Request<B>) -> Option<Response> {
        let refused = http::check_head(request, self.max_header_bytes).err()?;
        Some(if self.has_azure && !azure::is_native(request) {
            azure::refuse_head(request, &refused)
        } else {
            http::refuse_head(&refused)
        })
    }
}

/// The answer to the one request of a connection over the limit, which is closed after it.
fn answer_once<B>(
    place: Arc<Place>,
    mut router: Router,
    refusal: Option<Response>,
    request: Request<B>,
) -> Shortcut
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    // The body is dropped when all of it was read, or when the rest does not count any more.
    let asked = HasAsked(place);
    let request = request.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _ = &asked;
            frame
        }))
    });
    Box::pin(async move {
        let Ok(mut response) = match refusal {
            Some(refusal) => {
                drop(request);
                Ok(refusal)
            }
            None => router.call(request).await,
        };
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
        Ok(response)
    })
}

/// Says when it is dropped that a request has come.
struct HasAsked(Arc<Place>);

impl Drop for HasAsked {
    fn drop(&mut self) {
        let Self(place) = self;
        place.has_asked();
    }
}

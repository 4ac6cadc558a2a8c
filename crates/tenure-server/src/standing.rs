//! Places for connections over the limit: each is for one request, and for a short time.
//!
//! Silent connections can take all of these places, so a newcomer takes the place of the oldest
//! connection whose request has not come yet. A renewal over a new connection is therefore answered
//! whoever else connects.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// How long a connection over the limit may take for its request, its body and a TLS handshake
/// included. Clients send at once, so this is for slow networks.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(2);

/// The places over the limit. Clones are handles to the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Standing(Arc<Places>);

#[derive(Debug)]
struct Places {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// By their numbers, so the oldest first. Those whose request has come have no token any more.
    places: BTreeMap<u64, Option<CancellationToken>>,
}

/// A place over the limit. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    has_asked: AtomicBool,
    closed: CancellationToken,
}

impl Standing {
    /// So many places.
    pub(crate) fn new(most: usize) -> Self {
        let taken = Mutex::default();
        Self(Arc::new(Places { most, taken }))
    }

    /// A place for a newcomer. If all are taken, the oldest connection whose request has not come is
    /// closed for it; `None` if there is no such connection.
    pub(crate) fn enter(&self) -> Option<Arc<Place>> {
        let mut taken = self.0.lock();
        if taken.places.len() >= self.0.most {
            let mut places = taken.places.iter();
            let silent = places.find_map(|(number, closed)| Some((*number, closed.clone()?)));
            let (number, closed) = silent?;
            taken.places.remove(&number);
            closed.cancel();
        }
        let (number, closed) = (taken.next, CancellationToken::new());
        taken.next += 1;
        taken.places.insert(number, Some(closed.clone()));
        drop(taken);
        Some(Arc::new(Place {
            places: Arc::clone(&self.0),
            number,
            has_asked: AtomicBool::new(false),
            closed,
        }))
    }
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The whole request has come: the connection is not closed any more before it is answered.
    pub(crate) fn has_asked(&self) {
        if let Some(closed) = self.places.lock().places.get_mut(&self.number) {
            *closed = None;
            self.has_asked.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().places.remove(&self.number);
    }
}

/// A connection's bytes. Over the limit they end when the request does not come in time, or when a
/// newcomer takes the place.
pub(crate) struct Stream {
    tcp: TcpStream,
    limit: Option<TimeLimit>,
}

struct TimeLimit {
    place: Arc<Place>,
    over: BoxFuture<'static, ()>,
    is_over: bool,
}

impl Stream {
    /// The bytes of a connection, which has this place if it is over the limit.
    pub(crate) fn new(tcp: TcpStream, place: Option<Arc<Place>>) -> Self {
        let limit = place.map(|place| {
            let closed = place.closed.clone().cancelled_owned();
            let over = tokio::time::timeout(REQUEST_TIME, closed);
            TimeLimit {
                place,
                over: Box::pin(async { drop(over.await) }),
                is_over: false,
            }
        });
        Self { tcp, limit }
    }
}

impl TimeLimit {
    fn poll_over(&mut self, context: &mut Context<'_>) -> bool {
        if self.place.has_asked.load(Ordering::Relaxed) {
            return false;
        }
        self.is_over = self.is_over || self.over.as_mut().poll(context).is_ready();
        self.is_over
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { tcp, limit } = &mut *self;
        if limit.as_mut().is_some_and(|limit| limit.poll_over(context)) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(tcp).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newcomer_takes_the_place_of_the_oldest_that_has_not_asked() {
        let standing = Standing::new(2);
        let asked = standing.enter().unwrap();
        asked.has_asked();
        let silent = standing.enter().unwrap();
        let newcomer = standing.enter().unwrap();
        assert!(silent.closed.is_cancelled() && !asked.closed.is_cancelled());
        // A request that comes too late takes no place back.
        silent.has_asked();
        newcomer.has_asked();
        assert!(standing.enter().is_none());
        drop(silent);
        assert!(standing.enter().is_none());
        drop(asked);
        assert!(standing.enter().is_some());
    }
}

//! Connections over the limit: a few, each for one request and for a short time.
//!
//! Silent connections can take all of these permits, so a new connection takes the permit of the
//! oldest one whose request has not come yet. A renewal over a new connection is therefore
//! answered, however many others connect.

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

use crate::head_deadline::HeadDeadline;

/// How long a connection over the limit may take for its request, with the body and a TLS
/// handshake. Clients send at once, so this is for slow networks.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(2);

/// The permits over the limit. Clones are handles to the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Overflow(Arc<Permits>);

#[derive(Debug)]
struct Permits {
    capacity: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// By number, so the oldest first. One whose request has come has no token any more.
    permits: BTreeMap<u64, Option<CancellationToken>>,
}

/// The right to a connection over the limit. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct OverflowPermit {
    permits: Arc<Permits>,
    number: u64,
    has_request: AtomicBool,
    closed: CancellationToken,
}

impl Overflow {
    pub(crate) fn new(capacity: usize) -> Self {
        let taken = Mutex::default();
        Self(Arc::new(Permits { capacity, taken }))
    }

    /// A permit for a new connection. If all are taken, this closes the oldest connection whose
    /// request has not come; `None` if there is no such connection.
    pub(crate) fn enter(&self) -> Option<Arc<OverflowPermit>> {
        let mut taken = self.0.lock();
        if taken.permits.len() >= self.0.capacity {
            let mut permits = taken.permits.iter();
            let silent = permits.find_map(|(number, closed)| Some((*number, closed.clone()?)));
            let (number, closed) = silent?;
            taken.permits.remove(&number);
            closed.cancel();
        }
        let (number, closed) = (taken.next, CancellationToken::new());
        taken.next += 1;
        taken.permits.insert(number, Some(closed.clone()));
        drop(taken);
        Some(Arc::new(OverflowPermit {
            permits: Arc::clone(&self.0),
            number,
            has_request: AtomicBool::new(false),
            closed,
        }))
    }
}

impl Permits {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OverflowPermit {
    /// The whole request has come: the connection stays until it is answered.
    pub(crate) fn request_received(&self) {
        if let Some(closed) = self.permits.lock().permits.get_mut(&self.number) {
            *closed = None;
            self.has_request.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for OverflowPermit {
    fn drop(&mut self) {
        self.permits.lock().permits.remove(&self.number);
    }
}

/// The bytes of a connection. They end when the head of a request is late. Over the limit they end
/// when the request does not come in time, or when a new connection takes the permit.
pub(crate) struct Stream {
    tcp: TcpStream,
    head: HeadDeadline,
    limit: Option<TimeLimit>,
}

struct TimeLimit {
    permit: Arc<OverflowPermit>,
    over: BoxFuture<'static, ()>,
    is_over: bool,
}

impl Stream {
    /// The bytes of a connection, with its permit if it is over the limit.
    pub(crate) fn new(
        tcp: TcpStream,
        head: HeadDeadline,
        permit: Option<Arc<OverflowPermit>>,
    ) -> Self {
        let limit = permit.map(|permit| {
            let closed = permit.closed.clone().cancelled_owned();
            let over = tokio::time::timeout(REQUEST_TIME, closed);
            TimeLimit {
                permit,
                over: Box::pin(async { drop(over.await) }),
                is_over: false,
            }
        });
        Self { tcp, head, limit }
    }
}

impl TimeLimit {
    fn poll_over(&mut self, context: &mut Context<'_>) -> bool {
        if self.permit.has_request.load(Ordering::Relaxed) {
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
        let Self { tcp, head, limit } = &mut *self;
        if limit.as_mut().is_some_and(|limit| limit.poll_over(context)) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        match Pin::new(tcp).poll_read(context, buffer) {
            Poll::Pending => match head.poll_late(context) {
                Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Pending => Poll::Pending,
            },
            read => {
                if buffer.filled().len() > before {
                    head.bytes_received();
                }
                read
            }
        }
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
    fn a_new_connection_takes_the_permit_of_the_oldest_without_a_request() {
        let overflow = Overflow::new(2);
        let answered = overflow.enter().unwrap();
        answered.request_received();
        let silent = overflow.enter().unwrap();
        let new = overflow.enter().unwrap();
        assert!(silent.closed.is_cancelled() && !answered.closed.is_cancelled());
        // A request that comes too late does not take the permit back.
        silent.request_received();
        new.request_received();
        assert!(overflow.enter().is_none());
        drop(silent);
        assert!(overflow.enter().is_none());
        drop(answered);
        assert!(overflow.enter().is_some());
    }
}

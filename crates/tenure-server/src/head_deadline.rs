//! The time limit of a request's head: from the first byte of a connection's request, or from the
//! accept of the connection, to the end of the head.
//!
//! The HTTP server has one timeout for an idle connection and for a head, which must allow a client
//! to be idle between its renewals. A connection that sends a head byte by byte, or nothing at all,
//! would keep its permit for the same time.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// The phase in which a head must arrive: the connection is new, or the head has begun.
const DUE: u32 = 0;
/// The phase in which the connection waits for the next request.
const IDLE: u32 = 1;
/// The phase in which a request is served: its answer and its body are not complete. The completion
/// of each reduces the phase by one. The body has a time limit of its own.
const SERVING: u32 = IDLE + 2;
/// The number of phases. The state is the number of the request, multiplied by this, plus the
/// phase.
const PHASES: u32 = 4;

/// The activity of a connection. The stream, which sees bytes, and the service, which sees heads,
/// share it.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState(AtomicU32);

/// The body of a request. After a refusal the body may arrive later than the answer, and it is not
/// part of the next head.
struct CountedBody<B> {
    body: B,
    state: Arc<ConnectionState>,
    /// The number of the body's request. The next request may begin before this is dropped.
    request: u32,
}

/// The time limit of the heads of one connection.
#[derive(Debug)]
pub(crate) struct HeadDeadline {
    state: Arc<ConnectionState>,
    time: Duration,
    /// The timer, armed while a head is due.
    over: Option<Pin<Box<Sleep>>>,
}

impl ConnectionState {
    /// Notes that the head of a request is complete, and returns the body of the request.
    pub(crate) fn head_received<B>(state: &Arc<Self>, body: B) -> Body
    where
        B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send + Unpin + 'static,
    {
        let request = state.request().wrapping_add(1) % (u32::MAX / PHASES);
        state.0.store(request * PHASES + SERVING, Ordering::Relaxed);
        let state = Arc::clone(state);
        Body::new(CountedBody {
            body,
            state,
            request,
        })
    }

    /// Notes that the request is answered.
    pub(crate) fn answered(&self) {
        self.finish_part_of(self.request());
    }

    /// Notes that bytes have arrived, and returns whether they begin a head.
    fn begin_head(&self) -> bool {
        let begin = |state: u32| (state % PHASES == IDLE).then(|| state - 1);
        let begun = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, begin);
        begun.is_ok()
    }

    fn is_due(&self) -> bool {
        self.0.load(Ordering::Relaxed) % PHASES == DUE
    }

    /// Returns the number of the last request.
    fn request(&self) -> u32 {
        self.0.load(Ordering::Relaxed) / PHASES
    }

    fn finish_part_of(&self, request: u32) {
        let finish =
            |state: u32| (state / PHASES == request && state % PHASES > IDLE).then(|| state - 1);
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, finish);
    }
}

impl<B: HttpBody + Unpin> HttpBody for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for CountedBody<B> {
    fn drop(&mut self) {
        self.state.finish_part_of(self.request);
    }
}

impl HeadDeadline {
    pub(crate) const fn new(state: Arc<ConnectionState>, time: Duration) -> Self {
        Self {
            state,
            time,
            over: None,
        }
    }

    /// Notes that bytes have arrived.
    pub(crate) fn bytes_received(&mut self) {
        if self.state.begin_head() {
            // The time of an earlier head does not count.
            self.over = None;
        }
    }

    /// Completes when the head is late. It is called when no bytes are available, so that a head
    /// that arrives at once needs no timer.
    pub(crate) fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.state.is_due() {
            self.over = None;
            return Poll::Pending;
        }
        let time = self.time;
        let over = self.over.get_or_insert_with(|| Box::pin(sleep(time)));
        over.as_mut().poll(context)
    }
}

/// The bytes of a connection. The stream ends when the head of a request is late.
#[derive(Debug)]
pub(crate) struct TimedStream {
    tcp: TcpStream,
    deadline: HeadDeadline,
}

impl TimedStream {
    pub(crate) const fn new(tcp: TcpStream, deadline: HeadDeadline) -> Self {
        Self { tcp, deadline }
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { tcp, deadline } = &mut *self;
        let before = buffer.filled().len();
        match Pin::new(tcp).poll_read(context, buffer) {
            Poll::Pending => match deadline.poll_late(context) {
                Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Pending => Poll::Pending,
            },
            read => {
                if buffer.filled().len() > before {
                    deadline.bytes_received();
                }
                read
            }
        }
    }
}

impl AsyncWrite for TimedStream {
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
    use std::future::poll_fn;
    use tokio::time::{Instant, timeout};

    const TIME: Duration = Duration::from_millis(100);

    async fn is_late(deadline: &mut HeadDeadline, within: Duration) -> bool {
        let late = poll_fn(|context| deadline.poll_late(context));
        timeout(within, late).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_its_time_from_the_accept_or_from_its_first_byte() {
        let state = Arc::new(ConnectionState::default());
        let mut deadline = HeadDeadline::new(Arc::clone(&state), TIME);
        assert!(!is_late(&mut deadline, TIME / 10).await);
        let body = ConnectionState::head_received(&state, Body::empty());
        deadline.bytes_received();
        assert!(
            !is_late(&mut deadline, TIME * 2).await,
            "a body has another limit"
        );
        state.answered();
        deadline.bytes_received();
        assert!(
            !is_late(&mut deadline, TIME * 2).await,
            "the rest of a body is no head"
        );
        let next = ConnectionState::head_received(&state, Body::empty());
        drop(body);
        state.answered();
        deadline.bytes_received();
        assert!(
            !is_late(&mut deadline, TIME * 2).await,
            "the body of an earlier request is not that of this one"
        );
        drop(next);
        assert!(
            !is_late(&mut deadline, TIME * 2).await,
            "an idle connection"
        );
        let start = Instant::now();
        for _ in 0..3 {
            deadline.bytes_received();
            assert!(!is_late(&mut deadline, TIME / 10).await);
        }
        assert!(is_late(&mut deadline, TIME * 100).await);
        assert!(start.elapsed() < TIME * 20, "dripping bytes gain no time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_new_connection_is_late() {
        let mut deadline = HeadDeadline::new(Arc::default(), TIME);
        assert!(is_late(&mut deadline, TIME * 100).await);
    }
}

//! The time limits of a connection, and the memory that it may take before its request is known.
//!
//! The time limit of a request's head runs from the first byte of a connection's request, or from
//! the accept of the connection, to the end of the head.
//!
//! The HTTP server has one timeout for an idle connection and for a head, which must allow a client
//! to be idle between its renewals. A connection that sends a head byte by byte, or nothing at all,
//! would keep its permit for the same time.
//!
//! The time limit of an answer runs from the moment at which the client takes no more bytes to the
//! moment at which it has all of them. A client that takes a byte now and then gains no time.
//!
//! The store keeps a connection that it has closed until the client has closed it too, for the time
//! of an answer at most, and then resets it. Otherwise the kernel would keep the bytes that the
//! client does not take for minutes, and the connection would count for no client.
//!
//! A head needs a permit for its bytes after the first [`SHORT`], of which there are few. So a
//! connection whose sender is not known yet holds no more memory than that, in the buffer of HTTP
//! or in that of a TLS record.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::Timer;
use hyper_util::rt::TokioTimer;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::overflow::Overflow;

/// The phase in which a head must arrive: the connection is new, or the head has begun.
const DUE: u8 = 0;
/// The phase in which the connection waits for the next request.
const IDLE: u8 = 1;
/// The phase in which a request is served: its answer or its body is not complete. The body has a time
/// limit of its own.
const SERVING: u8 = 2;

/// The number of bytes that a connection may send before the head of its request is complete. A
/// handshake and the head of nearly every client are shorter, also with a certificate or a web token.
const SHORT: usize = 8 * 1024;

/// Like [`SHORT`], within TLS after the handshake. A longer record would make the buffers of TLS and
/// of HTTP grow at the same time.
const SHORT_IN_TLS: usize = 4 * 1024;

/// The number of connections whose heads may be longer at the same time. They take up to 100 KiB
/// each.
pub(crate) const LONG_HEADS: usize = 64;

/// The activity of a connection. The stream, which sees bytes, the service, which sees heads, and the
/// timer, which sees the ends of requests, share it.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    phase: AtomicU8,
    /// Whether the answer is a stream, which has no time limit.
    is_stream: AtomicBool,
    /// Whether the end of the connection does not wait for the client.
    ends_at_once: AtomicBool,
}

/// The timer for an idle connection and its next head. The HTTP server sets it when it begins to wait
/// for a head: then the answer and the body of the request before are complete. After a refusal the
/// body may arrive later than the answer, and it is not part of the next head.
#[derive(Debug)]
pub(crate) struct IdleTimer(pub(crate) Arc<ConnectionState>);

impl Timer for IdleTimer {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        TokioTimer::new().sleep(time)
    }

    fn sleep_until(&self, end: std::time::Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.0.request_done();
        TokioTimer::new().sleep_until(end)
    }
}

/// The limits of the heads of one connection.
#[derive(Debug)]
pub(crate) struct HeadDeadline {
    state: Arc<ConnectionState>,
    time: Duration,
    /// The timer, armed while a head is due.
    over: Option<Pin<Box<Sleep>>>,
    /// The number of bytes since the head is due, and how many it may have without a permit.
    received: usize,
    short: usize,
    long_heads: Arc<Overflow>,
    /// The permit of a long head.
    permit: Option<LongHead>,
}

/// The end of the permit of a long head: its time is over, or another long head needs the permit.
struct LongHead(Pin<Box<dyn Future<Output = ()> + Send>>);

impl ConnectionState {
    /// Notes that the head of a request is complete.
    pub(crate) fn head_received(&self) {
        self.phase.store(SERVING, Ordering::Relaxed);
    }

    /// Notes that the request is answered, by a stream or at once.
    pub(crate) fn answered(&self, is_stream: bool) {
        self.is_stream.store(is_stream, Ordering::Relaxed);
    }

    /// Lets the connection end without waiting for the client.
    pub(crate) fn end_at_once(&self) {
        self.ends_at_once.store(true, Ordering::Relaxed);
    }

    /// Notes that the answer and the body of the request are complete. A new connection has none.
    fn request_done(&self) {
        if self.phase() == SERVING {
            self.phase.store(IDLE, Ordering::Relaxed);
        }
    }

    /// Notes that bytes have arrived, and returns whether they begin a head.
    fn begin_head(&self) -> bool {
        let begins = self.phase() == IDLE;
        if begins {
            self.phase.store(DUE, Ordering::Relaxed);
        }
        begins
    }

    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Relaxed)
    }
}

impl HeadDeadline {
    pub(crate) const fn new(
        state: Arc<ConnectionState>,
        time: Duration,
        long_heads: Arc<Overflow>,
    ) -> Self {
        Self {
            state,
            time,
            over: None,
            received: 0,
            short: SHORT,
            long_heads,
            permit: None,
        }
    }

    /// Notes that a handshake is complete. Its bytes take no more memory, unless they were many:
    /// then the beginning of the head may have arrived with them.
    fn handshake_done(&mut self) {
        self.received = self.received.saturating_sub(SHORT - SHORT_IN_TLS);
        self.short = SHORT_IN_TLS;
    }

    /// Notes that bytes have arrived.
    pub(crate) fn bytes_received(&mut self, count: usize) {
        if self.state.begin_head() {
            // The time of an earlier head does not count.
            self.over = None;
            self.received = 0;
        }
        self.received = self.received.saturating_add(count);
    }

    /// Returns how many bytes may be read now; 0 if the connection must be closed, because its head
    /// is long and no permit is left.
    pub(crate) fn room(&mut self) -> usize {
        match self.state.phase() {
            DUE => {}
            IDLE => return self.short,
            _ => {
                self.permit = None;
                return usize::MAX;
            }
        }
        if self.received >= self.short && self.permit.is_none() {
            let Some(permit) = self.long_heads.enter() else {
                return 0;
            };
            self.permit = Some(LongHead(Box::pin(async move { permit.expired().await })));
        }
        match &self.permit {
            Some(_) => usize::MAX,
            None => self.short - self.received,
        }
    }

    /// Completes when the head is late. It is called when no bytes are available, so that a head
    /// that arrives at once needs no timer.
    pub(crate) fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.state.phase() != DUE {
            self.over = None;
            self.permit = None;
            return Poll::Pending;
        }
        if let Some(LongHead(expired)) = &mut self.permit
            && expired.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(());
        }
        poll_timer(&mut self.over, self.time, context)
    }
}

/// The interval of the looks whether the client of a closed connection has taken all bytes. They are
/// needed only for a client that has closed its end first.
const LOOK: Duration = Duration::from_millis(20);

/// The bytes of a connection. The stream ends when the head of a request is late, or when the
/// client does not take an answer in time.
#[derive(Debug)]
pub(crate) struct TimedStream {
    tcp: TcpStream,
    deadline: HeadDeadline,
    answer_time: Duration,
    /// The timer of an answer, armed when the client takes no more bytes until it has all of them.
    untaken: Option<Pin<Box<Sleep>>>,
    /// Whether bytes were written.
    has_written: bool,
    /// The timer of a closed connection, and of the next look at it.
    closing: Option<Pin<Box<Sleep>>>,
    look: Option<Pin<Box<Sleep>>>,
}

impl TimedStream {
    pub(crate) const fn new(tcp: TcpStream, deadline: HeadDeadline, answer_time: Duration) -> Self {
        Self {
            tcp,
            deadline,
            answer_time,
            untaken: None,
            has_written: false,
            closing: None,
            look: None,
        }
    }

    /// Notes that the handshake of TLS is complete.
    pub(crate) fn handshake_done(&mut self) {
        self.deadline.handshake_done();
    }

    /// Ends the stream if the client has not taken the answer in time.
    fn in_time(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.has_written |= written.is_ready();
        if written.is_ready() || self.deadline.state.is_stream.load(Ordering::Relaxed) {
            return written;
        }
        ready!(poll_timer(&mut self.untaken, self.answer_time, context));
        // The end of the connection does not wait either.
        self.closing = self.untaken.take();
        Poll::Ready(Err(self.reset()))
    }

    /// Completes when the client has taken all bytes of a connection that the store has closed, and
    /// has closed it too.
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut byte = [0];
            let mut next = ReadBuf::new(&mut byte);
            let peeked = self.tcp.poll_peek(context, &mut next);
            // The kernel resets a connection that is dropped before all bytes of the client are
            // read. It knows the peer until both ends are closed and no byte is unacknowledged.
            let is_over = match peeked {
                Poll::Ready(Ok(0)) | Poll::Pending => self.tcp.peer_addr().is_err(),
                Poll::Ready(_) => true,
            };
            if is_over {
                return Poll::Ready(Ok(()));
            }
            if poll_timer(&mut self.closing, self.answer_time, context).is_ready() {
                return Poll::Ready(Err(self.reset()));
            }
            ready!(peeked)?;
            ready!(poll_timer(&mut self.look, LOOK, context));
            self.look = None;
        }
    }

    /// Ends a connection without a complete head. It does not wait for the client: it would keep the
    /// memory of the head.
    fn end_of_head(&self) -> io::Error {
        self.deadline.state.end_at_once();
        match self.has_written {
            true => self.reset(),
            false => io::ErrorKind::TimedOut.into(),
        }
    }

    /// Lets the kernel forget the bytes that it has for the client, as soon as the stream is
    /// dropped.
    fn reset(&self) -> io::Error {
        let reset = SockRef::from(&self.tcp).set_linger(Some(Duration::ZERO));
        reset.map_or_else(|error| error, |()| io::ErrorKind::TimedOut.into())
    }
}

/// Completes when the timer, which is armed by the first call, is over.
fn poll_timer(
    timer: &mut Option<Pin<Box<Sleep>>>,
    time: Duration,
    context: &mut Context<'_>,
) -> Poll<()> {
    let timer = timer.get_or_insert_with(|| Box::pin(sleep(time)));
    timer.as_mut().poll(context)
}

impl fmt::Debug for LongHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LongHead")
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { tcp, deadline, .. } = &mut *self;
        let (room, before) = (deadline.room(), buffer.filled().len());
        let read = match room {
            0 => return Poll::Ready(Err(self.end_of_head())),
            room if room < buffer.remaining() => {
                let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
                let read = Pin::new(tcp).poll_read(context, &mut part);
                let count = part.filled().len();
                buffer.advance(count);
                read
            }
            _ => Pin::new(tcp).poll_read(context, buffer),
        };
        match read {
            Poll::Pending => match deadline.poll_late(context) {
                Poll::Ready(()) => Poll::Ready(Err(self.end_of_head())),
                Poll::Pending => Poll::Pending,
            },
            read => {
                let count = buffer.filled().len() - before;
                if count > 0 {
                    deadline.bytes_received(count);
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
        let written = Pin::new(&mut self.tcp).poll_write(context, bytes);
        self.in_time(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The callers flush when they have written all they have.
        self.untaken = None;
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.tcp).poll_shutdown(context))?;
        if !self.has_written || self.deadline.state.ends_at_once.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        self.poll_closed(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(context, slices);
        self.in_time(written, context)
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

    fn long_heads(count: usize) -> Arc<Overflow> {
        Arc::new(Overflow::new(count))
    }

    async fn is_late(deadline: &mut HeadDeadline, within: Duration) -> bool {
        let late = poll_fn(|context| deadline.poll_late(context));
        timeout(within, late).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_its_time_from_the_accept_or_from_its_first_byte() {
        let state = Arc::new(ConnectionState::default());
        let timer = IdleTimer(Arc::clone(&state));
        let wait = || drop(timer.sleep_until(std::time::Instant::now() + TIME));
        let mut deadline = HeadDeadline::new(Arc::clone(&state), TIME, long_heads(1));
        wait();
        assert!(!is_late(&mut deadline, TIME / 10).await);
        state.head_received();
        deadline.bytes_received(1);
        assert!(
            !is_late(&mut deadline, TIME * 2).await,
            "a body has another limit"
        );
        state.answered(false);
        deadline.bytes_received(1);
        assert!(
            !is_late(&mut deadline, TIME * 2).await,
            "the rest of a body is no head"
        );
        wait();
        assert!(
            !is_late(&mut deadline, TIME * 2).await,
            "an idle connection"
        );
        let start = Instant::now();
        for _ in 0..3 {
            deadline.bytes_received(1);
            assert!(!is_late(&mut deadline, TIME / 10).await);
        }
        assert!(is_late(&mut deadline, TIME * 100).await);
        assert!(start.elapsed() < TIME * 20, "dripping bytes gain no time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_new_connection_is_late() {
        let mut deadline = HeadDeadline::new(Arc::default(), TIME, long_heads(1));
        assert!(is_late(&mut deadline, TIME * 100).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_head_needs_one_of_a_few_permits_until_it_is_complete() {
        let permits = long_heads(1);
        let new = || {
            let state = Arc::new(ConnectionState::default());
            let deadline =
                HeadDeadline::new(Arc::clone(&state), TIME * 1_000, Arc::clone(&permits));
            (state, deadline)
        };
        let (state, mut first) = new();
        first.bytes_received(SHORT - 1);
        assert_eq!(first.room(), 1);
        first.bytes_received(1);
        assert_eq!(first.room(), usize::MAX, "it has the permit");
        // Another long head takes the permit of one that is not complete.
        let (_, mut second) = new();
        second.bytes_received(SHORT);
        assert_eq!(second.room(), usize::MAX);
        assert!(is_late(&mut first, TIME).await);
        assert!(!is_late(&mut second, TIME).await);
        // A complete head needs no permit, and its body has other limits.
        state.head_received();
        assert_eq!(first.room(), usize::MAX);
        assert!(!is_late(&mut first, TIME).await);
        state.request_done();
        assert_eq!(first.room(), SHORT, "the next head");
        // Within TLS a short head is shorter, also after a handshake.
        for (handshake, rest) in [(600, SHORT_IN_TLS), (5_000, SHORT - 5_000)] {
            let (_, mut within) = new();
            within.bytes_received(handshake);
            within.handshake_done();
            within.bytes_received(rest - 1);
            assert_eq!(within.room(), 1);
        }
        // A long head has little time for its rest.
        assert!(is_late(&mut second, TIME * 100).await);
    }
}

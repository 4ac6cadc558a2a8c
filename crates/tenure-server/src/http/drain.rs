//! Draining of bodies that a refusal leaves unread.
//!
//! Many requests are refused before their body is read. If the store closed the connection then,
//! while the client still sends, the operating system would reset it, and the client might lose the
//! response (RFC 9112, section 9.6). So the store responds, reads the rest of the body and discards
//! it. Then the connection serves the next request.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Bytes, HttpBody};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Most discarded bytes of one body: the largest body that any configuration allows. Clients that
/// are a little over the limit get their response; a larger body would cost time for a request that
/// cannot succeed.
const MAX_DISCARDED: u64 = 64 << 20;

/// The body of a request. If it is dropped before its end, a task reads the rest.
///
/// The task ends after [`MAX_DISCARDED`] bytes or at the time limit of a body, so a refused request
/// holds its connection no longer than any other. Then the connection is closed.
pub(super) struct DrainOnDrop<B: Rest> {
    /// `None` after the end.
    body: Option<B>,
    /// How long the body may take.
    time: Duration,
    /// When a reader first had to wait for it.
    waited_since: Option<Instant>,
    /// The client waits for `100 Continue`, and nothing has read the body yet. Reading would make
    /// the client send a body that is only discarded.
    expects_continue: bool,
}

/// A body that a task can drain.
pub(crate) trait Rest: HttpBody<Data = Bytes> + Send + Unpin + 'static {}

impl<B: HttpBody<Data = Bytes> + Send + Unpin + 'static> Rest for B {}

impl<B: Rest> DrainOnDrop<B> {
    /// Wraps a body that may take this `time`. `expects_continue`: the request has the header
    /// `Expect`.
    pub(super) const fn new(body: B, time: Duration, expects_continue: bool) -> Self {
        Self {
            body: Some(body),
            time,
            waited_since: None,
            expects_continue,
        }
    }
}

impl<B: Rest> HttpBody for DrainOnDrop<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(context);
        this.expects_continue = false;
        match &polled {
            Poll::Pending => {
                this.waited_since.get_or_insert_with(Instant::now);
            }
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(None | Some(Err(_))) => this.body = None,
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(B::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or_else(|| SizeHint::with_exact(0), B::size_hint)
    }
}

impl<B: Rest> Drop for DrainOnDrop<B> {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else {
            return;
        };
        if body.is_end_stream() || self.expects_continue || body.size_hint().lower() > MAX_DISCARDED
        {
            return;
        }
        let waited = self
            .waited_since
            .map_or(Duration::ZERO, |since| since.elapsed());
        let left = self.time.saturating_sub(waited);
        // Without a runtime there is no connection.
        if let (false, Ok(runtime)) = (left.is_zero(), Handle::try_current()) {
            runtime.spawn(timeout(left, discard(body)));
        }
    }
}

async fn discard<B: Rest>(mut body: B) {
    let mut discarded = 0;
    while let Some(Ok(frame)) = body.frame().await {
        discarded += frame.data_ref().map_or(0, |data| data.len() as u64);
        if discarded > MAX_DISCARDED {
            return;
        }
    }
}

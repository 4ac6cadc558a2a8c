//! Draining of bodies that a refusal leaves unread.
//!
//! Many requests are refused before their body is read. If the store closed the connection then,
//! while the client still sends, the operating system would reset it, and the client might lose the
//! response (RFC 9112, section 9.6). So the store responds, reads the rest of the body and discards
//! it. Then the connection serves the next request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::overflow::OverflowPermit;

/// The maximum number of discarded bytes of one body: the largest body that any configuration
/// allows, 64 MiB. Clients that are a little over the limit get their response; a larger body would
/// cost time for a request that cannot succeed.
const MAX_DISCARDED: u64 = 64 << 20;

/// The body of a request. If it is dropped before its end, a task reads the rest.
///
/// The task ends after [`MAX_DISCARDED`] bytes or at the time limit of a body, so a refused request
/// holds its connection no longer than any other request. Then the connection is closed. On a
/// connection over the limit the rest is not read at all: such a connection serves one request, and
/// an incomplete body must not hold it.
pub(super) struct DrainOnDrop {
    /// The body; `None` after its end.
    pub(super) body: Option<Body>,
    /// The time limit of the body.
    pub(super) until: Instant,
    /// The request has the header `Expect`: the client waits for `100 Continue`, and nothing has
    /// read the body yet. Reading would make the client send a body that the store only discards.
    pub(super) expects_continue: bool,
    /// The permit of a connection over the limit.
    pub(super) over: Option<Arc<OverflowPermit>>,
}

impl HttpBody for DrainOnDrop {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(context);
        this.expects_continue = false;
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for DrainOnDrop {
    fn drop(&mut self) {
        if let Some(permit) = &self.over {
            // Either the whole request was read, or the rest no longer matters.
            return permit.request_received();
        }
        let Some(body) = self.body.take() else {
            return;
        };
        if body.is_end_stream() || self.expects_continue || body.size_hint().lower() > MAX_DISCARDED
        {
            return;
        }
        let left = self.until.saturating_duration_since(Instant::now());
        // Without a runtime there is no connection either.
        if let (false, Ok(runtime)) = (left.is_zero(), Handle::try_current()) {
            runtime.spawn(timeout(left, discard(body)));
        }
    }
}

async fn discard(mut body: Body) {
    let mut discarded = 0;
    while let Some(Ok(frame)) = body.frame().await {
        discarded += frame.data_ref().map_or(0, |data| data.len() as u64);
        if discarded > MAX_DISCARDED {
            return;
        }
    }
}

//! Streams of lease events of the store.

use std::fmt;
use std::io;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use reqwest::Response;
use serde::de::DeserializeOwned;
use sse_stream::{Sse, SseByteStream};
use tenure_core::wire::{EventKind, LeaseEvent, Reset};
use tenure_core::{ElectionName, Name};
use tokio::time::timeout;

use super::Endpoint;
use super::client::{StoreClient, path};
use super::error::StoreError;
use crate::http::builder::innermost_cause;

/// The time for which a stream may be silent. A store without events sends a comment every 15 s, of
/// which two may be lost.
const SILENCE: Duration = Duration::from_secs(40);

/// The scope of an event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watched {
    /// One lease, which may not exist yet.
    Lease(ElectionName),
    /// All leases of a namespace.
    Namespace(Name),
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreEvent {
    /// A lease has changed. The view shows the lease immediately after the event, with the event's
    /// revision.
    Lease(EventKind, Box<LeaseEvent>),
    /// Events before this point may be missing; all later events will arrive. Read the current
    /// state now.
    Reset,
}

type Blocks = BoxStream<'static, Result<Sse, sse_stream::Error>>;

/// A stream of lease events.
pub struct EventStream {
    blocks: Blocks,
    endpoint: Endpoint,
    last_id: Option<u64>,
}

impl StoreClient {
    /// Streams events from now on, after a first [`StoreEvent::Reset`]; or, with the id of the last
    /// event received, all events since then. In that case there is no reset if the store still has
    /// these events. Renewals are not events.
    ///
    /// To miss no event, read the current state after the reset, and ignore events up to the
    /// revision of that state.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if none of the addresses opens a stream.
    pub async fn events(
        &self,
        watched: &Watched,
        last_id: Option<u64>,
    ) -> Result<EventStream, StoreError> {
        let path = match watched {
            Watched::Lease(election) => path(election, "/events"),
            Watched::Namespace(namespace) => format!("v1/namespaces/{namespace}/leases/events"),
        };
        let (response, endpoint) = self.open(&path, last_id).await?;
        Ok(EventStream {
            blocks: blocks(response),
            endpoint,
            last_id,
        })
    }
}

impl EventStream {
    /// Waits for the next event. This method is cancel safe.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the stream has ended. Open another one with [`EventStream::last_id`].
    pub async fn next(&mut self) -> Result<StoreEvent, StoreError> {
        loop {
            let block = match self.blocks.next().await {
                Some(Ok(block)) => block,
                Some(Err(error)) => return Err(self.ended(&error)),
                None => return Err(self.ended(&"the store has ended the stream")),
            };
            let event = self.event(&block)?;
            let id = block.id.and_then(|id| id.parse().ok());
            self.last_id = id.or(self.last_id);
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }

    /// Returns the id of the last event of this stream, or of the stream before it.
    #[must_use]
    pub const fn last_id(&self) -> Option<u64> {
        self.last_id
    }

    /// Parses the event of a block. Returns `None` for kinds that only newer clients know.
    fn event(&self, block: &Sse) -> Result<Option<StoreEvent>, StoreError> {
        let kind = block.event.as_deref().and_then(EventKind::of_name);
        let data = block.data.as_deref().unwrap_or_default();
        Ok(match kind {
            None => None,
            Some(EventKind::Reset) => {
                let Reset { .. } = self.data(data)?;
                Some(StoreEvent::Reset)
            }
            Some(kind) => Some(StoreEvent::Lease(kind, Box::new(self.data(data)?))),
        })
    }

    fn data<T: DeserializeOwned>(&self, text: &str) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|_| StoreError::NotAStore {
            endpoint: self.endpoint.clone(),
            status: 200,
        })
    }

    fn ended(&self, reason: &dyn fmt::Display) -> StoreError {
        StoreError::Unreachable {
            endpoint: self.endpoint.clone(),
            reason: reason.to_string(),
        }
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream")
            .field("endpoint", &self.endpoint)
            .field("last_id", &self.last_id)
            .finish_non_exhaustive()
    }
}

/// Splits the body of a response into blocks.
fn blocks(response: Response) -> Blocks {
    let chunks = stream::unfold(response, |mut response| async {
        let chunk = match timeout(SILENCE, response.chunk()).await {
            Ok(Ok(None)) => return None,
            Ok(Ok(Some(chunk))) => Ok(chunk),
            Ok(Err(error)) => Err(io::Error::other(innermost_cause(&error))),
            Err(_) => Err(io::Error::other("nothing came in time")),
        };
        Some((chunk, response))
    });
    Box::pin(SseByteStream::new(chunks))
}

//! Streams of events, as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tenure_core::wire::{Code, EventKind, Problem, Reset};

use super::leases;
use super::origin::check_page;
use super::path::Lease;
use super::problem::ProblemResponse;
use super::query::{PollQuery, number, values};
use crate::Store;
use crate::events::Topic;
use crate::store::{Heard, Watcher};

/// How often an idle stream sends a comment: more often than the timeouts of proxies and clients.
const HEARTBEAT: Duration = Duration::from_secs(15);

const EVENT_STREAM: &str = "text/event-stream";

/// The parameters of a stream. Each route that opens a stream extracts them, so the checks of all
/// streams are here. A page of another origin opens no stream: it cannot read the events, but the
/// store would serve a stream for each `EventSource` of such a page.
pub(super) struct StreamRequest {
    renewed: bool,
    /// The last event that the client has.
    after: Option<u64>,
}

/// The events of one lease.
pub(super) async fn of_lease(
    State(store): State<Store>,
    Lease(key): Lease,
    request: StreamRequest,
) -> Result<Response, ProblemResponse> {
    Ok(stream(store.watch(
        Topic::Lease(key),
        request.renewed,
        request.after,
    )?))
}

/// The lease. If its name is `events`, the path is also that of the events of its namespace: a
/// client that accepts a stream of events gets these, one that accepts JSON gets the lease, and any
/// other gets the lease if it exists.
pub(super) async fn of_namespace_or_view(
    State(store): State<Store>,
    Lease(key): Lease,
    request: Request,
) -> Result<Response, ProblemResponse> {
    let (mut parts, _) = request.into_parts();
    let accepts = |media_type: &str| accepts(&parts.headers, media_type);
    let is_stream = key.lease() == "events"
        && (accepts(EVENT_STREAM) || !accepts("application/json") && !store.knows(&key));
    if is_stream {
        let request = StreamRequest::from_request_parts(&mut parts, &store).await?;
        let topic = Topic::Namespace(key.namespace().into());
        return Ok(stream(store.watch(
            topic,
            request.renewed,
            request.after,
        )?));
    }
    let query = PollQuery::from_request_parts(&mut parts, &store).await?;
    let view = leases::view(State(store), Lease(key), query).await?;
    Ok(view.into_response())
}

/// Whether the request accepts this media type by name.
fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.any(|value| {
        let mut media_types = value.split(',');
        media_types.any(|one| {
            let one = one.split(';').next().unwrap_or("").trim();
            one.eq_ignore_ascii_case(media_type)
        })
    })
}

impl<S: Send + Sync> FromRequestParts<S> for StreamRequest {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        check_page(&parts.headers)?;
        let [renewed] = values(parts, ["renewed"])?;
        let renewed = match renewed.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(text) => {
                let detail = format!("renewed is {text:?} and must be true or false");
                return Err(ProblemResponse(Problem::new(Code::Malformed, detail)));
            }
        };
        let after = last_event_id(&parts.headers)?;
        Ok(Self { renewed, after })
    }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ProblemResponse> {
    const NAME: &str = "Last-Event-ID";
    let mut values = headers.get_all(NAME).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        let detail = format!("the request has more than one {NAME} header");
        return Err(ProblemResponse(Problem::new(Code::Malformed, detail)));
    }
    // In server-sent events an empty id means none.
    if value.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(value.as_bytes());
    number(NAME, &text)?
        .within(NAME, 0, u64::MAX)
        .map(Some)
        .map_err(ProblemResponse)
}

fn stream(watcher: Watcher) -> Response {
    let events = stream::unfold(watcher, |mut watcher| async {
        let event = event(&watcher.next().await?);
        Some((Ok::<_, Infallible>(event), watcher))
    });
    let keep_alive = KeepAlive::new().interval(HEARTBEAT);
    Sse::new(events).keep_alive(keep_alive).into_response()
}

fn event(heard: &Heard) -> Event {
    match heard {
        Heard::Event(told) => {
            let event = Event::default().event(told.kind().to_string());
            let event = match told.id() {
                Some(id) => event.id(id.to_string()),
                None => event,
            };
            event.data(told.data())
        }
        Heard::Reset(revision) => {
            let data = serde_json::to_string(&Reset {
                revision: *revision,
            });
            Event::default()
                .event(EventKind::Reset.to_string())
                .id(revision.to_string())
                .data(data.unwrap_or_default())
        }
    }
}

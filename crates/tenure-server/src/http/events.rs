//! Streams of events, as server-sent events.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{FutureExt, StreamExt, stream};
use tenure_core::wire::{EventKind, Problem, Reset};

use super::call::Call;
use super::leases;
use super::origin::check_page;
use super::query::{PollQuery, STREAM, flag, malformed, number, values};
use crate::access::{Caller, Right, Role, Target};
use crate::events::Topic;
use crate::store::WatchItem;

/// The interval of comments on an idle stream. It is shorter than the timeouts of proxies and
/// clients.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// The header that resumes a stream.
pub(super) const LAST_EVENT_ID: &str = "Last-Event-ID";

const READ: Right = Right::Role(Role::Read);

/// Streams the events of one lease.
pub(super) async fn of_lease(call: Call<'_>) -> Result<Response, Problem> {
    let key = call.lease()?;
    stream(call, Topic::Lease(key))
}

/// Streams the events of all leases that the caller may read.
pub(super) async fn of_all(call: Call<'_>) -> Result<Response, Problem> {
    stream(call, Topic::All)
}

/// Returns the lease named `events`, or streams the events of the namespace: both have the same
/// path. A client that accepts an event stream gets the stream. A client that accepts JSON gets the
/// lease. Any other client gets the lease if it exists.
pub(super) async fn of_namespace_or_view(call: Call<'_>) -> Result<Response, Problem> {
    let key = call.lease()?;
    let (headers, caller) = (&call.head.headers, &call.caller);
    let (read, target) = (READ, Target::Lease(key.namespace(), key.lease()));
    // A caller that may not read the lease must not learn from the answer whether the lease exists.
    let asks_for_lease = || {
        accepts(headers, "application/json") || caller.may(read, target) && call.store.knows(&key)
    };
    let is_stream =
        key.lease() == "events" && (accepts(headers, EVENT_STREAM) || !asks_for_lease());
    if is_stream {
        return stream(call, Topic::Namespace(key.namespace().into()));
    }
    caller.check(read, target)?;
    let query = PollQuery::of(&call.head.uri)?;
    let mut view = pin!(leases::view(call.store, caller, &key, query));
    // No time has passed since the check.
    if let Some(view) = view.as_mut().now_or_never() {
        return Ok(view?.into_response());
    }
    tokio::select! {
        biased;
        () = call.access.refused(caller, read, target) => Err(caller.forbidden(read, target)),
        view = view => Ok(view?.into_response()),
    }
}

/// Returns whether the request accepts this media type by name.
fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    let mut media_types = accepted.flat_map(|value| value.split(','));
    media_types.any(|one| {
        let one = one.split(';').next().unwrap_or("").trim();
        one.eq_ignore_ascii_case(media_type)
    })
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    const NAME: &str = LAST_EVENT_ID;
    let mut values = headers.get_all(NAME).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(malformed(format!(
            "the request has more than one {NAME} header"
        )));
    }
    // In server-sent events an empty id means none.
    if value.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(value.as_bytes());
    number(NAME, &text)?.within(NAME, 0, u64::MAX).map(Some)
}

/// Opens a stream, which ends when the caller loses its right. Each route of a stream calls this, so
/// the checks of all streams are here. A page of another origin must not open a stream: it cannot
/// read the events, but the store would serve a stream for each `EventSource` of such a page. The
/// stream contains the events that the caller may read.
fn stream(call: Call<'_>, topic: Topic) -> Result<Response, Problem> {
    let Call { head, caller, .. } = call;
    check_page(&head.headers)?;
    let [renewed] = values(&head.uri, &STREAM)?;
    let renewed = flag("renewed", renewed.as_deref())?;
    let last = last_event_id(&head.headers)?;
    let watcher = call
        .store
        .watch(&caller.tenant(), topic.clone(), renewed, last)?;
    let (access, of_refused) = (call.access.clone(), caller.clone());
    let refused = async move {
        let target = match &topic {
            Topic::Lease(key) => Target::Lease(key.namespace(), key.lease()),
            Topic::Namespace(namespace) => Target::Namespace(namespace),
            Topic::All => Target::Anywhere,
        };
        access.refused(&of_refused, READ, target).await;
    };
    let events = stream::unfold((watcher, caller), |(mut watcher, caller)| async {
        let item = loop {
            let item = watcher.next().await?;
            if is_readable(&caller, &item) {
                break item;
            }
        };
        Some((Ok::<_, Infallible>(event(&item)), (watcher, caller)))
    });
    let events = events.take_until(Box::pin(refused));
    let keep_alive = KeepAlive::new().interval(HEARTBEAT);
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

fn is_readable(caller: &Caller, item: &WatchItem) -> bool {
    match item {
        WatchItem::Event(event) => {
            let (namespace, lease) = (event.change.key.namespace(), event.change.key.lease());
            caller.may(READ, Target::Lease(namespace, lease))
        }
        WatchItem::Reset(_) => true,
    }
}

fn event(item: &WatchItem) -> Event {
    let (kind, id) = match item {
        WatchItem::Event(published) => (published.kind(), published.id),
        WatchItem::Reset(revision) => (EventKind::Reset, Some(*revision)),
    };
    let event = Event::default().event(kind.to_string());
    let event = match id {
        Some(id) => event.id(id.to_string()),
        None => event,
    };
    match item {
        WatchItem::Event(published) => event.data(published.data()),
        WatchItem::Reset(revision) => {
            let revision = *revision;
            event.data(serde_json::to_string(&Reset { revision }).unwrap_or_default())
        }
    }
}

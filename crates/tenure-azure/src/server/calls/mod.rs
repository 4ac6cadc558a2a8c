//! The operations of the protocol.

pub(super) mod batch;
pub(super) mod blobs;
pub(super) mod containers;
pub(super) mod lease;
pub(super) mod list;

use std::fmt::Display;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use tenure_core::Epoch;
use tenure_core::lease::{LeaseDuration, State};

use super::blobs::Item;
use super::headers::{Metadata, http_date};
use super::target::Query;
use crate::protocol::{LEASE_DURATION, LEASE_STATE, METADATA_PREFIX};
use tenure_server::LeaseSnapshot;

/// Returns whether the request renews a lease.
pub(super) fn is_renewal(head: &Parts) -> bool {
    let query = Query::parse(head.uri.query()).unwrap_or_default();
    head.method == Method::PUT
        && query.get("comp") == Some("lease")
        && lease::is_renewal(&head.headers)
}

/// Creates a response without a body.
fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Creates a response without a body, with the headers of this version of a container or blob.
fn answer(status: StatusCode, item: &Item) -> Response {
    let mut response = empty(status);
    set_version(response.headers_mut(), item);
    response
}

/// Sets a header. Omits a value that headers do not allow. A shared access signature can contain
/// such a value for a content header.
fn set(headers: &mut HeaderMap, name: &'static str, value: impl Display) {
    if let Ok(value) = HeaderValue::try_from(value.to_string()) {
        headers.insert(name, value);
    }
}

fn set_version(headers: &mut HeaderMap, item: &Item) {
    set(headers, "etag", format_args!("\"{}\"", item.etag()));
    set(headers, "last-modified", http_date(item.modified()));
}

/// Sets the epoch of a term, which Azure does not have.
fn set_epoch(headers: &mut HeaderMap, epoch: Option<Epoch>) {
    if let Some(epoch) = epoch {
        set(headers, "tenure-epoch", epoch);
    }
}

fn set_metadata(headers: &mut HeaderMap, metadata: &Metadata) {
    for (name, value) in metadata {
        let name = HeaderName::try_from(format!("{METADATA_PREFIX}{name}"));
        // The name and the value both came from headers.
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
}

/// Sets the public properties of a lease.
fn set_lease(headers: &mut HeaderMap, snapshot: LeaseSnapshot) {
    let shown = Shown::of(snapshot);
    set(headers, LEASE_STATE, shown.state);
    set(headers, "x-ms-lease-status", shown.status);
    if let Some(duration) = shown.duration {
        set(headers, LEASE_DURATION, duration);
    }
    // A receiver that rejects stale leaders needs the epoch of the running term, not of the last
    // one.
    if shown.status == "locked" {
        set_epoch(headers, snapshot.epoch);
    }
}

/// A lease with the words of the service.
struct Shown {
    state: &'static str,
    status: &'static str,
    duration: Option<&'static str>,
}

impl Shown {
    fn of(snapshot: LeaseSnapshot) -> Self {
        let (state, status) = match snapshot.state {
            State::Available => ("available", "unlocked"),
            State::Leased => ("leased", "locked"),
            State::Breaking => ("breaking", "locked"),
            State::Broken => ("broken", "unlocked"),
            State::Expired => ("expired", "unlocked"),
        };
        let duration = match snapshot.duration {
            Some(LeaseDuration::Fixed(_)) => Some("fixed"),
            Some(LeaseDuration::Infinite) => Some("infinite"),
            None => None,
        };
        Self {
            state,
            status,
            duration: duration.filter(|_| snapshot.state == State::Leased),
        }
    }
}

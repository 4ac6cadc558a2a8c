//! The operations of the protocol.

pub(super) mod batch;
pub(super) mod blobs;
pub(super) mod containers;
pub(super) mod lease;
pub(super) mod list;

use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use tenure_core::Epoch;
use tenure_core::lease::{LeaseDuration, State};

use super::blobs::Version;
use super::headers::Metadata;
use super::target::Query;
use tenure_server::LeaseSnapshot;

const LEASE_ID: HeaderName = HeaderName::from_static("x-ms-lease-id");
const LEASE_TIME: HeaderName = HeaderName::from_static("x-ms-lease-time");
const LEASE_STATE: HeaderName = HeaderName::from_static("x-ms-lease-state");
const LEASE_STATUS: HeaderName = HeaderName::from_static("x-ms-lease-status");
const LEASE_DURATION: HeaderName = HeaderName::from_static("x-ms-lease-duration");

/// The epoch of a term, which Azure does not have.
const EPOCH: HeaderName = HeaderName::from_static("tenure-epoch");

/// Whether the request renews a lease.
pub(super) fn is_renewal(head: &Parts) -> bool {
    let query = Query::parse(head.uri.query()).unwrap_or_default();
    head.method == Method::PUT
        && query.get("comp") == Some("lease")
        && lease::is_renewal(&head.headers)
}

/// A response without a body, about this version of a container or blob.
fn answer(status: StatusCode, version: &Version) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    insert_version(response.headers_mut(), version);
    response
}

fn insert_version(headers: &mut HeaderMap, version: &Version) {
    headers.insert(header::ETAG, version.etag.clone());
    headers.insert(header::LAST_MODIFIED, version.last_modified.clone());
}

/// The store encrypts nothing, and says so if clients require the header.
fn mark_unencrypted(headers: &mut HeaderMap, name: &'static str) {
    headers.insert(
        HeaderName::from_static(name),
        HeaderValue::from_static("false"),
    );
}

fn insert_number(headers: &mut HeaderMap, name: HeaderName, number: u64) {
    headers.insert(name, number.into());
}

fn insert_epoch(headers: &mut HeaderMap, epoch: Option<Epoch>) {
    if let Some(epoch) = epoch {
        insert_number(headers, EPOCH, epoch.get());
    }
}

fn insert_metadata(headers: &mut HeaderMap, metadata: &Metadata) {
    for (name, value) in metadata {
        let name = HeaderName::try_from(format!("x-ms-meta-{name}"));
        // Both came from headers.
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
}

/// The public properties of a lease.
fn insert_lease(headers: &mut HeaderMap, snapshot: LeaseSnapshot) {
    let shown = Shown::of(snapshot);
    headers.insert(LEASE_STATE, HeaderValue::from_static(shown.state));
    headers.insert(LEASE_STATUS, HeaderValue::from_static(shown.status));
    if let Some(duration) = shown.duration {
        headers.insert(LEASE_DURATION, HeaderValue::from_static(duration));
    }
    // A receiver that fences out old leaders needs the running term, not the last one.
    if shown.status == "locked" {
        insert_epoch(headers, snapshot.epoch);
    }
}

/// A lease in the terms of the service.
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
            _ if snapshot.state != State::Leased => None,
            Some(LeaseDuration::Fixed(_)) => Some("fixed"),
            Some(LeaseDuration::Infinite) => Some("infinite"),
            None => None,
        };
        Self {
            state,
            status,
            duration,
        }
    }
}

/// Whole seconds, rounded half up.
fn seconds(time: Duration) -> u64 {
    (time + Duration::from_millis(500)).as_secs()
}

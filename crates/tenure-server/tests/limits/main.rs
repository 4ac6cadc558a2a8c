//! Tests of limits over real sockets. A request at a limit is accepted. A request over it is
//! refused with the reason and changes nothing, and is accepted when there is capacity again.

#[path = "../common/mod.rs"]
mod common;

mod bodies;
mod connections;
mod heads;
mod leases;
mod slow;
mod tenants;
mod waiters;

use std::time::Duration;

use common::wire::{Reply, Wire, head, head_of};
use common::{Answer, Api, Running, SOON, answer, assert_ok, assert_refused, id, minute, outcome};
use serde_json::{Value, json};
use tenure_server::{Limits, OpenError, Store, StoreConfig};
use tokio::time::{Instant, sleep, timeout};

const ACQUIRE: &str = "/v1/namespaces/ns/leases/job/acquire";
const RENEW: &str = "/v1/namespaces/ns/leases/job/renew";

fn limited(change: impl FnOnce(&mut Limits)) -> Running {
    let mut limits = Limits::default();
    change(&mut limits);
    common::start(StoreConfig::memory().with_limits(limits))
}

#[track_caller]
fn assert_told(refused: &Answer, status: u16, code: &str, parts: &[&str]) {
    assert_refused(refused, status, code);
    assert_eq!(refused.1["status"], status, "{refused:?}");
    let detail = refused.1["detail"].as_str().unwrap();
    for part in parts {
        assert!(detail.contains(part), "{part}: {detail}");
    }
}

/// Checks a problem as it was received.
#[track_caller]
fn assert_problem(reply: &Reply, status: u16, code: &str, parts: &[&str]) {
    assert_told(&reply.answer, status, code, parts);
    assert!(
        reply.has("content-type: application/problem+json"),
        "{reply:?}"
    );
    let is_transient = matches!(status, 429 | 503 | 507);
    assert_eq!(reply.has("retry-after: 1"), is_transient, "{reply:?}");
}

async fn assert_unknown(api: &Api, lease: &str) {
    assert_refused(&api.get(lease).await, 404, "unknown_lease");
}

#[test]
fn a_store_with_a_limit_out_of_range_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let limits = Limits {
        max_header_bytes: 8191,
        ..Limits::default()
    };
    let config = StoreConfig::folder(&data_dir).with_limits(limits);
    let error = Store::open(config).unwrap_err();
    assert!(matches!(error, OpenError::Limit(_)));
    assert_eq!(
        error.to_string(),
        "max_header_bytes is 8191 and must be from 8192 to 65536"
    );
    assert!(!data_dir.exists());
}

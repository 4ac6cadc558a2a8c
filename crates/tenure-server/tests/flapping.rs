//! Clients that repeatedly open and close streams of events.
//!
//! The test counts the threads of its process, so no other test may run in it.
#![cfg(target_os = "linux")]

mod common;

use common::{Api, SOON, answer, assert_ok, id, in_memory, minute};
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The number of leases. A scan of them takes longer than opening and closing a stream.
const LEASES: usize = 2_000;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

fn post(api: &Api, namespace: &str, lease: &str, verb: &str) -> RequestBuilder {
    let path = format!("/v1/namespaces/{namespace}/leases/{lease}/{verb}");
    api.request(Method::POST, &path)
}

/// Acquires this number of leases in the namespace.
async fn fill(api: &Api, namespace: &'static str) {
    const AT_ONCE: usize = 8;
    let mut tasks = JoinSet::new();
    for first in 0..AT_ONCE {
        let api = api.clone();
        tasks.spawn(async move {
            for number in (first..LEASES).step_by(AT_ONCE) {
                let request = post(&api, namespace, &format!("lease-{number}"), "acquire");
                let response = request.json(&minute(1)).send().await.unwrap();
                assert_ok(&answer(response).await);
            }
        });
    }
    tasks.join_all().await;
}

/// Opens a stream and reads until the text `end` arrives.
async fn open(api: &Api, path: &str, header: &str, end: &str) -> (TcpStream, String) {
    let address = api.origin.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head =
        format!("GET {path} HTTP/1.1\r\nhost: store\r\naccept: text/event-stream\r\n{header}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    let mut bytes = [0; 4096];
    let read = async {
        while !text.contains(end) {
            let count = stream.read(&mut bytes).await.unwrap();
            assert!(count > 0, "{text}");
            text += std::str::from_utf8(&bytes[..count]).unwrap();
        }
    };
    timeout(SOON, read).await.expect("an event");
    (stream, text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_opened_and_closed_start_no_threads_and_miss_no_expiry() {
    let api = in_memory().api;
    for namespace in ["ns", "ns2"] {
        fill(&api, namespace).await;
    }
    let short = json!({"holder": "c", "duration_ms": 1_000, "lease_id": id(2)});
    let request = post(&api, "ns", "short", "acquire").json(&short);
    let granted = answer(request.send().await.unwrap()).await;
    assert_ok(&granted);
    let before = granted.1["revision"].as_u64().unwrap() - 1;

    let begun = threads();
    let mut most = begun;
    let streams = [
        "ns/leases/events",
        "ns2/leases/events",
        "ns/leases/lease-1/events",
    ];
    for number in 0..300 {
        let path = format!("/v1/namespaces/{}", streams[number % streams.len()]);
        drop(open(&api, &path, "", "event: reset").await);
        most = most.max(threads());
    }
    assert!(most <= begun, "{begun} threads, then {most}");

    // No request has changed the lease.
    let resume = format!("last-event-id: {before}\r\n");
    let path = "/v1/namespaces/ns/leases/events";
    let (_stream, text) = open(&api, path, &resume, r#""state":"expired""#).await;
    assert!(!text.contains("event: reset"), "{text}");
    let (_, expired) = text.split_once("event: expired").expect("an expiry");
    assert!(expired.contains(r#""lease":"short""#), "{text}");
}

//! The fast path of acquires, renewals and releases, which returns the same responses as the
//! routes.

use crate::common::{Api, SOON, assert_ok, id, in_memory};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::time::timeout;

/// Returns the status, the headers without the date, and the body without the remaining time.
async fn sent(api: &Api, path: &str, content_type: &str, body: &str) -> (u16, HeaderMap, Value) {
    let request = api.request("POST".parse().unwrap(), path);
    let request = request
        .header("content-type", content_type)
        // The answer contains the same id if it is a refusal.
        .header("x-request-id", "r-1")
        .body(body.to_owned());
    let response = timeout(SOON, request.send()).await.unwrap().unwrap();
    let (status, mut headers) = (response.status().as_u16(), response.headers().clone());
    headers.remove("date");
    let body = response.bytes().await.unwrap();
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    let left = body.get_mut("remaining_ms");
    if let Some(left) = left.filter(|left| !left.is_null()) {
        assert!(left.as_u64().unwrap() > 50_000);
        *left = Value::Null;
    }
    // The length depends on the remaining time.
    headers.remove("content-length");
    (status, headers, body)
}

#[tokio::test]
async fn a_renewal_has_the_same_response_on_the_fast_path_and_the_route() {
    let api = in_memory().api;
    assert_ok(&api.acquire("job", 1).await);
    let json = "application/json";
    let good = json!({"lease_id": id(1)}).to_string();
    let renewals = [
        (json, good.clone(), 200),
        (
            json,
            json!({"lease_id": id(1), "duration_ms": 70_000}).to_string(),
            200,
        ),
        ("application/json; charset=utf-8", good.clone(), 200),
        ("text/plain", good.clone(), 415),
        (json, json!({"lease_id": id(2)}).to_string(), 409),
        (json, json!({"lease_id": "x"}).to_string(), 400),
        (
            json,
            json!({"lease_id": id(1), "duration_ms": 1}).to_string(),
            422,
        ),
        (json, json!({"lease_id": id(1), "more": 1}).to_string(), 400),
        (json, format!("[{good}]"), 400),
        (json, "{".to_owned(), 400),
        (json, String::new(), 400),
        (json, " ".repeat(1_000_000), 413),
    ];
    for (content_type, body, status) in renewals {
        // Only the router recognises that these two spellings are the same name.
        for (lease, spelt) in [("job", "%6aob"), ("none", "%6eone")] {
            let path = |name| format!("/v1/namespaces/ns/leases/{name}/renew");
            let short = sent(&api, &path(lease), content_type, &body).await;
            let routed = sent(&api, &path(spelt), content_type, &body).await;
            assert_eq!(short, routed, "{lease} {body:.80}");
            match (lease, status) {
                ("none", 200 | 409) => assert_eq!(short.0, 404),
                _ => assert_eq!(short.0, status, "{body:.80}"),
            }
        }
    }
}

#[tokio::test]
async fn an_acquire_and_a_release_have_the_same_responses_on_the_fast_path_and_the_route() {
    let (fast, routed) = (in_memory().api, in_memory().api);
    let json = "application/json";
    let acquire = |number| crate::common::minute(number).to_string();
    let release = |number| json!({"lease_id": id(number), "reason": "done"}).to_string();
    let mut nobody = crate::common::minute(3);
    nobody["holder"] = "".into();
    for (verb, content_type, body, status) in [
        ("release", json, release(1), 404),
        ("acquire", json, acquire(1), 200),
        ("acquire", json, acquire(1), 200),
        ("acquire", json, acquire(2), 409),
        ("acquire", "text/plain", acquire(1), 415),
        ("acquire", json, nobody.to_string(), 400),
        ("acquire", json, "{".to_owned(), 400),
        ("acquire", json, " ".repeat(1_000_000), 413),
        ("release", json, release(2), 409),
        (
            "release",
            json,
            json!({"lease_id": id(1), "more": 1}).to_string(),
            400,
        ),
        ("release", "text/plain", release(1), 415),
        ("release", json, release(1), 200),
        ("release", json, release(1), 409),
        ("acquire", json, acquire(1), 409),
        ("acquire", json, acquire(2), 200),
    ] {
        // Only the router recognises that these two spellings are the same name.
        let path = |name| format!("/v1/namespaces/ns/leases/{name}/{verb}");
        let mut answers = [
            sent(&fast, &path("job"), content_type, &body).await,
            sent(&routed, &path("%6aob"), content_type, &body).await,
        ];
        for (_, headers, body) in &mut answers {
            // The two stores differ in their ids and times, which a detail may contain.
            assert!(headers.remove("tenure-store").is_some());
            for field in ["epoch", "granted_at", "revision", "detail"] {
                body.as_object_mut().unwrap().remove(field);
            }
        }
        let [short, routed] = answers;
        assert_eq!(short, routed, "{verb} {body:.80}");
        assert_eq!(short.1["tenure-request-id"], "r-1");
        assert_eq!(short.0, status, "{verb} {body:.80} {}", short.2);
    }
}

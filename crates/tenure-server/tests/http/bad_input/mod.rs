//! Every route with every kind of bad input: the answer is never a 500 and always a problem with
//! the reason.

mod heads;
mod origin;

use crate::common::wire::Wire;
use crate::common::{Answer, Api, SOON, answer, assert_ok, assert_refused, id, in_memory};
use reqwest::Method;
use serde_json::json;
use tenure_server::{Limits, StoreConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const VERBS: [(&str, &str); 7] = [
    ("POST", "acquire"),
    ("POST", "renew"),
    ("POST", "change"),
    ("POST", "release"),
    ("POST", "handover"),
    ("POST", "verify"),
    ("PUT", "metadata"),
];

fn good_body(verb: &str) -> String {
    match verb {
        "acquire" => json!({"holder": "c1", "duration_ms": 60_000}),
        "renew" | "release" => json!({"lease_id": id(1)}),
        "change" => json!({"lease_id": id(1), "proposed_lease_id": id(2)}),
        "handover" => json!({"lease_id": id(1), "to": "c2", "within_ms": 1_000, "force": true}),
        "verify" => json!({"epoch": 1}),
        "metadata" => json!({"lease_id": id(1), "metadata": {}}),
        _ => json!({}),
    }
    .to_string()
}

async fn send(api: &Api, method: &str, path: &str, content_type: &str, body: &str) -> Answer {
    let method: Method = method.parse().unwrap();
    let mut request = api.request(method, path).body(body.to_owned());
    if !content_type.is_empty() {
        request = request.header("content-type", content_type);
    }
    let response = request.send().await.unwrap();
    if response.status().as_u16() >= 400 {
        let declared = response.headers().get("content-type").unwrap();
        assert_eq!(declared, "application/problem+json", "{path}");
        let is_transient = matches!(response.status().as_u16(), 429 | 503 | 507);
        assert_eq!(response.headers().contains_key("retry-after"), is_transient);
    }
    answer(response).await
}

const JSON: &str = "application/json";

#[tokio::test]
async fn a_body_must_have_the_content_type_of_json() {
    let api = in_memory().api;
    for (method, verb) in VERBS.into_iter().chain([("POST", "break")]) {
        let path = format!("/v1/namespaces/ns/leases/job/{verb}");
        let body = good_body(verb);
        for wrong in [
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/ld+json",
            "json",
        ] {
            let refused = send(&api, method, &path, wrong, &body).await;
            assert_refused(&refused, 415, "not_json");
        }
    }
    for (lease, right) in [
        ("a", JSON),
        ("b", "application/json; charset=utf-8"),
        ("c", "Application/JSON"),
    ] {
        let path = format!("/v1/namespaces/ns/leases/{lease}/acquire");
        assert_ok(&send(&api, "POST", &path, right, &good_body("acquire")).await);
    }
}

#[tokio::test]
async fn a_body_must_be_json_of_the_right_shape() {
    let api = in_memory().api;
    let control = "{\"\u{0}\": 1}";
    for (method, verb) in VERBS.into_iter().chain([("POST", "break")]) {
        let path = format!("/v1/namespaces/ns/leases/job/{verb}");
        let trailing = good_body(verb) + " {}";
        let deep = "[".repeat(10_000);
        for bad in [
            "{",
            "null",
            "[]",
            "[\"c1\", 60000]",
            "1",
            "\"x\"",
            control,
            &trailing,
            &deep,
        ] {
            let refused = send(&api, method, &path, JSON, bad).await;
            assert_refused(&refused, 400, "malformed");
        }
        let refused = send(&api, method, &path, JSON, "{\n  \"holder\": }").await;
        let detail = refused.1["detail"].as_str().unwrap();
        assert!(
            detail.contains("line 2") || detail.contains("unknown field"),
            "{detail}"
        );
    }
    for (method, verb) in VERBS {
        let path = format!("/v1/namespaces/ns/leases/job/{verb}");
        assert_refused(&send(&api, method, &path, JSON, "").await, 400, "malformed");
        assert_refused(
            &send(&api, method, &path, JSON, "{}").await,
            400,
            "malformed",
        );
    }
    let response = api
        .http
        .post(api.url("job", "acquire"))
        .header("content-type", JSON)
        .body(b"{\"holder\": \"\xff\xfe\"}".to_vec());
    let refused = answer(response.send().await.unwrap()).await;
    assert_refused(&refused, 400, "malformed");
}

#[tokio::test]
async fn the_refusal_of_a_body_over_the_limit_names_the_limit() {
    let api = in_memory().api;
    for (method, verb) in VERBS.into_iter().chain([("POST", "break")]) {
        let path = format!("/v1/namespaces/ns/leases/job/{verb}");
        let padded = |len: usize| {
            let body = good_body(verb);
            " ".repeat(len - body.len()) + &body
        };
        let refused = send(&api, method, &path, JSON, &padded(16 * 1024 + 1)).await;
        assert_refused(&refused, 413, "too_large");
        assert!(refused.1["detail"].as_str().unwrap().contains("16384"));
        let (status, body) = send(&api, method, &path, JSON, &padded(16 * 1024)).await;
        assert!(status != 413, "{body}");
    }
}

#[tokio::test]
async fn queries_are_as_strict_as_bodies() {
    let api = in_memory().api;
    assert_ok(&api.acquire("job", 1).await);
    for (query, status, code) in [
        ("?limit=0", 422, "out_of_range"),
        ("?limit=1001", 422, "out_of_range"),
        ("?limit=-1", 422, "out_of_range"),
        ("?limit=99999999999999999999", 422, "out_of_range"),
        ("?limit=ten", 400, "malformed"),
        ("?limit=", 400, "malformed"),
        ("?limit=1.5", 400, "malformed"),
        ("?limit=1&limit=2", 400, "malformed"),
        ("?prefix=a%20b", 400, "invalid_name"),
        ("?prefix=a/b", 400, "invalid_name"),
        ("?after=", 400, "invalid_name"),
        ("?after=a%2Fb", 400, "invalid_name"),
        ("/job?after=x", 400, "malformed"),
        ("/job?after=-1", 422, "out_of_range"),
        ("/job?after=99999999999999999999999", 422, "out_of_range"),
        ("/job?after=0&wait_ms=300001", 422, "out_of_range"),
        ("/job?after=0&wait_ms=soon", 400, "malformed"),
    ] {
        let refused = api.list(query).await;
        assert_refused(&refused, status, code);
    }
    let (_, problem) = api.list("?limit=1001").await;
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("1001") && detail.contains("1 to 1000"),
        "{detail}"
    );
    for fine in [
        "?limit=1",
        "?limit=1000",
        "?prefix=",
        "?prefix=.",
        "?",
        "/job?after=0",
        "/job?wait_ms=1",
    ] {
        assert_ok(&api.list(fine).await);
    }
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_refused() {
    let api = in_memory().api;
    for path in [
        "/ui",
        "/v1",
        "/v1/namespaces/ns/leases/",
        "/v1/namespaces/ns/leases/job/steal",
        "/v1/namespaces/ns/leases/job/acquire/now",
        "/v1/namespaces/ns",
        "/v2/namespaces/ns/leases",
    ] {
        let refused = send(&api, "GET", path, "", "").await;
        assert_refused(&refused, 404, "unknown_route");
        assert!(refused.1["detail"].as_str().unwrap().contains(path));
    }
    for (method, path, allowed) in [
        ("GET", "/v1/namespaces/ns/leases/job/acquire", "POST"),
        ("DELETE", "/v1/namespaces/ns/leases/job/renew", "POST"),
        ("POST", "/v1/namespaces/ns/leases/job/metadata", "PUT"),
        ("POST", "/v1/namespaces/ns/leases/job", "GET,HEAD,DELETE"),
        ("PATCH", "/v1/namespaces/ns/leases", "GET,HEAD"),
        ("POST", "/livez", "GET,HEAD"),
    ] {
        let request = api.request(method.parse().unwrap(), path);
        let response = request.send().await.unwrap();
        assert_eq!(
            response.headers().get("allow").unwrap(),
            allowed,
            "{method} {path}"
        );
        assert_refused(&answer(response).await, 405, "method_not_allowed");
    }
}

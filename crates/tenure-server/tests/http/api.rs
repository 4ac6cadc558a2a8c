//! Each operation of the HTTP API, as a client sees it.

use crate::common::{Api, answer, assert_ok, assert_refused, id, in_memory, minute};
use serde_json::{Value, json};

/// Checks that a response for observers contains no lease id.
fn assert_secret(view: &Value) {
    assert!(view.get("lease_id").is_none(), "{view}");
    assert!(!view.to_string().contains("6f1c9a64"), "{view}");
}

#[tokio::test]
async fn an_acquire_returns_the_whole_view_and_the_lease_id() {
    let server = in_memory();
    let body = json!({"holder": "c1", "duration_ms": 60_000, "lease_id": id(1),
        "metadata": {"address": "10.0.0.1:80"}});
    let (status, view) = server.api.post("job", "acquire", body).await;
    assert_eq!(status, 200);
    assert_eq!(view["namespace"], "ns");
    assert_eq!(view["lease"], "job");
    assert_eq!(view["state"], "leased");
    assert_eq!(view["holder"], "c1");
    assert!(view["epoch"].as_u64().unwrap() > 1_700_000_000_000);
    assert_eq!(view["duration_ms"], 60_000);
    assert!((59_000..=60_000).contains(&view["remaining_ms"].as_u64().unwrap()));
    let granted_at = view["granted_at"].as_str().unwrap();
    assert!(
        chrono::DateTime::parse_from_rfc3339(granted_at).is_ok(),
        "{granted_at}"
    );
    assert_eq!(view["metadata"], json!({"address": "10.0.0.1:80"}));
    assert_eq!(view["waiters"], 0);
    let revision = view["revision"].as_u64().unwrap();
    assert!((1_700_000_000_000_000..1 << 53).contains(&revision));
    assert_eq!(view["lease_id"], id(1));
}

#[tokio::test]
async fn the_store_makes_a_lease_id_if_the_request_has_none() {
    let api = in_memory().api;
    let body = json!({"holder": "c1", "duration_ms": "infinite"});
    let (_, view) = api.post("job", "acquire", body).await;
    assert_eq!(view["duration_ms"], "infinite");
    assert_eq!(view["remaining_ms"], Value::Null);
    let renewed = api
        .post("job", "renew", json!({"lease_id": view["lease_id"]}))
        .await;
    assert_ok(&renewed);
}

#[tokio::test]
async fn only_the_holder_sees_the_lease_id() {
    let api = in_memory().api;
    assert_ok(&api.acquire("job", 1).await);
    let metadata = json!({"lease_id": id(1), "metadata": {"a": "b"}});
    let put = api.http.put(api.url("job", "metadata")).json(&metadata);
    for (_, view) in [
        api.get("job").await,
        api.list("").await,
        api.acquire("job", 2).await,
        api.renew("job", 1).await,
        answer(put.send().await.unwrap()).await,
        api.post("job", "verify", json!({"epoch": 1})).await,
        api.post("job", "renew", json!({"lease_id": id(9)})).await,
        api.post("job", "break", json!({"break_period_ms": 0}))
            .await,
        api.release("job", 1).await,
    ] {
        assert_secret(&view);
    }
}

#[tokio::test]
async fn a_late_duplicate_of_the_holders_acquire_changes_nothing() {
    let api = in_memory().api;
    let mut body = json!({"holder": "c1", "duration_ms": 1_500, "lease_id": id(1),
        "metadata": {"version": "1"}});
    assert_ok(&api.post("job", "acquire", body.clone()).await);
    let said = json!({"lease_id": id(1), "metadata": {"version": "2"}});
    let said = api.http.put(api.url("job", "metadata")).json(&said);
    assert_ok(&answer(said.send().await.unwrap()).await);
    let longer = json!({"lease_id": id(1), "duration_ms": 600_000});
    assert_ok(&api.post("job", "renew", longer).await);
    for metadata in [json!({"version": "1"}), json!({})] {
        body["metadata"] = metadata;
        let (status, view) = api.post("job", "acquire", body.clone()).await;
        assert_eq!((status, &view["duration_ms"]), (200, &json!(600_000)));
        assert!(view["remaining_ms"].as_u64() > Some(500_000), "{view}");
        assert_eq!(view["metadata"], json!({"version": "2"}));
    }
}

#[tokio::test]
async fn a_break_needs_no_body_and_may_have_a_period() {
    let api = in_memory().api;
    let infinite = json!({"holder": "c1", "duration_ms": "infinite", "lease_id": id(1)});
    assert_ok(&api.post("job", "acquire", infinite).await);
    let breaking = api
        .post("job", "break", json!({"break_period_ms": 30_000}))
        .await;
    assert_eq!(breaking.1["state"], "breaking");
    assert!(breaking.1["remaining_ms"].as_u64().unwrap() > 29_000);
    assert_refused(&api.renew("job", 1).await, 409, "lease_broken");
    assert_ok(
        &api.post(
            "job",
            "break",
            json!({"break_period_ms": 0, "reason": "now"}),
        )
        .await,
    );
    assert_eq!(api.get("job").await.1["state"], "broken");

    assert_ok(&api.acquire("job", 2).await);
    let empty = api.http.post(api.url("job", "break")).send().await.unwrap();
    assert_eq!(empty.status(), 200);
}

#[tokio::test]
async fn a_list_comes_in_pages_in_order_of_names() {
    let api = in_memory().api;
    for name in ["c", "a2", "a1", "b", "a3"] {
        assert_ok(&api.acquire(name, 1).await);
    }
    let elsewhere = format!("{}/v1/namespaces/other/leases/a1/acquire", api.origin);
    assert!(
        api.http
            .post(elsewhere)
            .json(&minute(1))
            .send()
            .await
            .unwrap()
            .status()
            .is_success()
    );
    let names = |list: &Value| -> Vec<String> {
        let leases = list["leases"].as_array().unwrap().iter();
        leases
            .map(|view| view["lease"].as_str().unwrap().to_owned())
            .collect()
    };
    let (_, all) = api.list("").await;
    assert_eq!(
        (names(&all), &all["next"]),
        (
            vec!["a1", "a2", "a3", "b", "c"]
                .into_iter()
                .map(String::from)
                .collect(),
            &Value::Null
        )
    );
    let (_, page) = api.list("?prefix=a&limit=2").await;
    assert_eq!(
        (names(&page), &page["next"]),
        (vec!["a1".into(), "a2".into()], &json!("a2"))
    );
    let (_, page) = api.list("?prefix=a&limit=2&after=a2").await;
    assert_eq!(
        (names(&page), &page["next"]),
        (vec!["a3".into()], &Value::Null)
    );
    let (_, none) = api.list("?prefix=zz").await;
    assert_eq!(none, json!({"leases": [], "next": null}));
}

/// Clients limit the size of a response, so pages are limited too.
#[tokio::test]
async fn a_page_of_large_leases_is_shorter_than_requested() {
    let api = in_memory().api;
    // Each character takes six bytes in JSON.
    let said = "\u{1}".repeat(2_600);
    for number in 0..300 {
        let mut body = minute(number);
        body["metadata"] = json!({"said": said});
        assert_ok(&api.post(&format!("job-{number:03}"), "acquire", body).await);
    }
    let (mut seen, mut query) = (0, "?limit=1000".to_owned());
    loop {
        let (_, page) = api.list(&query).await;
        let bytes = page.to_string().len();
        assert!(bytes < 5 << 20, "{bytes} bytes");
        for view in page["leases"].as_array().unwrap() {
            assert_eq!(view["lease"], format!("job-{seen:03}"));
            seen += 1;
        }
        let Some(next) = page["next"].as_str() else {
            break;
        };
        query = format!("?limit=1000&after={next}");
    }
    assert_eq!(seen, 300);
    assert_ne!(query, "?limit=1000", "more than one page");
}

#[tokio::test]
async fn a_server_is_live_and_ready() {
    let Api { origin, http } = in_memory().api;
    for path in ["/livez", "/readyz"] {
        let response = http.get(format!("{origin}{path}")).send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.text().await.unwrap()),
            (200, "ok\n".into())
        );
    }
}

/// The files that the page names, and their types.
const FILES: [(&str, &str); 11] = [
    ("", "text/html; charset=utf-8"),
    ("ui/style.css", "text/css; charset=utf-8"),
    ("ui/icon.svg", "image/svg+xml"),
    ("ui/api.js", "text/javascript; charset=utf-8"),
    ("ui/live.js", "text/javascript; charset=utf-8"),
    ("ui/dom.js", "text/javascript; charset=utf-8"),
    ("ui/overview.js", "text/javascript; charset=utf-8"),
    ("ui/election.js", "text/javascript; charset=utf-8"),
    ("ui/timeline.js", "text/javascript; charset=utf-8"),
    ("ui/actions.js", "text/javascript; charset=utf-8"),
    ("ui/app.js", "text/javascript; charset=utf-8"),
];

#[tokio::test]
async fn every_file_of_the_page_has_the_headers_that_protect_it() {
    let server = in_memory();
    let page = server.api.http.get(format!("{}/", server.api.origin));
    let page = page.send().await.unwrap().text().await.unwrap();
    for (path, content_type) in FILES {
        assert!(page.contains(path), "the page does not name {path}");
        let url = format!("{}/{path}", server.api.origin);
        let got = server.api.http.get(&url).send().await.unwrap();
        assert_eq!(got.status(), 200, "{path}");
        let headers = got.headers().clone();
        let body = got.bytes().await.unwrap();
        for (name, value) in [
            ("content-type", content_type),
            (
                "content-security-policy",
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                 img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                 require-trusted-types-for 'script'; trusted-types 'none'",
            ),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cache-control", "no-cache"),
        ] {
            assert_eq!(headers[name], value, "{name} of {path}");
        }
        assert!(!headers.contains_key("set-cookie"), "{path}");

        let head = server.api.http.head(&url).send().await.unwrap();
        assert_eq!(head.status(), 200, "{path}");
        assert_eq!(head.headers()["etag"], headers["etag"], "{path}");
        assert_eq!(head.headers()["content-length"], body.len().to_string());
        assert!(head.bytes().await.unwrap().is_empty(), "{path}");

        let again = server.api.http.get(&url);
        let again = again.header("if-none-match", &headers["etag"]).send();
        let again = again.await.unwrap();
        assert_eq!(again.status(), 304, "{path}");
        assert!(again.bytes().await.unwrap().is_empty(), "{path}");
    }
}

#[tokio::test]
async fn no_other_file_is_served_with_the_page() {
    let api = in_memory().api;
    for path in [
        "ui/",
        "ui/index.html",
        "ui/mod.rs",
        "ui/types.d.ts",
        "ui/..%2fmod.rs",
        "ui/%2e%2e/mod.rs",
        "ui/app.js/",
        "ui/APP.JS",
        "index.html",
        "favicon.ico",
    ] {
        let got = api.http.get(format!("{}/{path}", api.origin));
        let got = answer(got.send().await.unwrap()).await;
        assert_refused(&got, 404, "unknown_route");
    }
}

#[tokio::test]
async fn answers_with_data_are_not_kept_by_browsers() {
    let api = in_memory().api;
    assert_ok(&api.acquire("job", 1).await);
    for path in [
        "v1/limits",
        "v1/whoami",
        "v1/namespaces/ns/leases",
        "v1/namespaces/ns/leases/job",
        "v1/namespaces/ns/leases/job/history",
        "v1/namespaces/ns/leases/job/events",
        "v1/namespaces/ns/leases/missing",
    ] {
        let got = api.http.get(format!("{}/{path}", api.origin));
        let got = got.send().await.unwrap();
        let expected = match path.ends_with("events") {
            true => "no-store, no-transform",
            false => "no-store",
        };
        assert_eq!(got.headers()["cache-control"], expected, "{path}");
    }
}

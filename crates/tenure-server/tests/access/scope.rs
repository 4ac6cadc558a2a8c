//! Tests of lists, streams and the caller's view of itself: each shows only the leases in scope.

use super::*;

#[tokio::test]
async fn a_list_shows_the_leases_within_the_scope_page_by_page() {
    let guarded = Guarded::start(&[
        ("admin", &grant("admin", "*", "")),
        (
            "some",
            &format!(
                "{}, {}",
                grant("read", "a", "x"),
                grant("candidate", "a", "b")
            ),
        ),
    ]);
    for lease in ["a1", "b1", "b2", "c1", "x1", "x2", "y1"] {
        let path = format!("/v1/namespaces/a/leases/{lease}/acquire");
        let acquire = json!({"holder": "c1", "duration_ms": 60_000});
        assert_eq!(guarded.post("admin", &path, acquire).await.0, 200);
    }
    for limit in 1..=5 {
        for (query, expected) in [
            ("", vec!["b1", "b2", "x1", "x2"]),
            ("&prefix=x", vec!["x1", "x2"]),
            ("&prefix=x2", vec!["x2"]),
            ("&prefix=a", vec![]),
            ("&after=b1", vec!["b2", "x1", "x2"]),
        ] {
            let mut names = Vec::new();
            let mut after = String::new();
            loop {
                let after_query = if after.is_empty() { query } else { &after };
                let path = format!("/v1/namespaces/a/leases?limit={limit}{after_query}");
                let (status, page) = guarded.get("some", &path).await;
                assert_eq!(status, 200, "{page}");
                let leases = page["leases"].as_array().unwrap();
                names.extend(
                    leases
                        .iter()
                        .map(|lease| lease["lease"].as_str().unwrap().to_owned()),
                );
                let Some(next) = page["next"].as_str() else {
                    break;
                };
                let prefix = query
                    .strip_prefix("&prefix")
                    .map_or(String::new(), |prefix| format!("&prefix{prefix}"));
                after = format!("{prefix}&after={next}");
            }
            assert_eq!(names, expected, "{limit} {query}");
        }
    }
}

#[tokio::test]
async fn a_stream_of_a_namespace_has_the_events_within_the_scope() {
    let guarded = Guarded::start(&[
        ("admin", &grant("admin", "*", "")),
        ("some", &grant("read", "a", "x")),
    ]);
    let mut stream = guarded
        .stream("some", "/v1/namespaces/a/leases/events")
        .await;
    let mut seen = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    for lease in ["b1", "x1"] {
        let path = format!("/v1/namespaces/a/leases/{lease}/acquire");
        let acquire = json!({"holder": "c1", "duration_ms": 60_000});
        assert_eq!(guarded.post("admin", &path, acquire).await.0, 200);
    }
    while !seen.contains("\"x1\"") {
        let chunk = tokio::time::timeout(SOON, stream.chunk()).await.unwrap();
        seen.push_str(std::str::from_utf8(&chunk.unwrap().unwrap()).unwrap());
    }
    assert!(!seen.contains("\"b1\""), "{seen}");
}

#[tokio::test]
async fn a_caller_sees_its_own_rights_and_an_administrator_all_principals() {
    let guarded = Guarded::start(&[
        ("admin", &grant("admin", "*", "")),
        ("worker", &grant("candidate", "a", "x")),
    ]);
    let (status, own) = guarded.get("worker", "/v1/whoami").await;
    assert_eq!(status, 200);
    let worker = guarded.credentials.token("worker");
    let grants = json!([{"role": "candidate", "namespace": "a", "prefix": "x"}]);
    let expected = json!({"principal": "worker", "kind": "token", "secret": worker.id().as_str(),
        "expires": null, "grants": grants});
    assert_eq!(own, expected);
    let (status, all) = guarded.get("admin", "/v1/access").await;
    assert_eq!(status, 200);
    let listed = &all["principals"][1];
    assert_eq!(
        (&listed["name"], &listed["grants"]),
        (&json!("worker"), &grants)
    );
    assert!(listed["secrets"][0]["last_used"].is_string(), "{listed}");
    for (_, token) in &guarded.credentials.tokens {
        let text = all.to_string();
        assert!(!text.contains(&token.hash().to_string()) && !text.contains(token.reveal()));
    }
}

#[tokio::test]
async fn the_path_of_a_namespaces_stream_does_not_tell_whether_a_lease_is_called_events() {
    let guarded = Guarded::start(&[
        ("admin", &grant("admin", "*", "")),
        ("some", &grant("read", "a", "x")),
    ]);
    let path = "/v1/namespaces/a/leases/events";
    for _ in 0..2 {
        // Without the header `Accept`, the client gets the lease if it exists and the client may
        // read it.
        guarded.stream("some", path).await;
        let request = guarded.running.api.request(Method::GET, path);
        let token = guarded.credentials.token("some").reveal();
        let view = request
            .bearer_auth(token)
            .header("accept", "application/json");
        let refused = common::answer(view.send().await.unwrap()).await;
        assert_refused(&refused, 403, "forbidden");
        let acquire = body_of("acquire", &id(1));
        let acquired = guarded
            .post("admin", &format!("{path}/acquire"), acquire)
            .await;
        assert_eq!(acquired.0, 200);
    }
    assert_eq!(guarded.get("admin", path).await.1["lease"], "events");
}

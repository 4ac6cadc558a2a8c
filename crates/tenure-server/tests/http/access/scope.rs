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
        let refused = crate::common::answer(view.send().await.unwrap()).await;
        assert_refused(&refused, 403, "forbidden");
        let acquire = body_of("acquire", &id(1));
        let acquired = guarded
            .post("admin", &format!("{path}/acquire"), acquire)
            .await;
        assert_eq!(acquired.0, 200);
    }
    assert_eq!(guarded.get("admin", path).await.1["lease"], "events");
}

/// Starts a store with leases in three namespaces, and a caller who may read some of them.
async fn with_some() -> Guarded {
    let some = [grant("read", "a", "x"), grant("candidate", "b", "")].join(", ");
    let guarded = Guarded::start(&[("admin", &grant("admin", "*", "")), ("some", &some)]);
    for name in ["a/x1", "a/y1", "b/z1", "c/x1"] {
        let (namespace, lease) = name.split_once('/').unwrap();
        let path = format!("/v1/namespaces/{namespace}/leases/{lease}/acquire");
        let acquire = body_of("acquire", &id(1));
        assert_eq!(guarded.post("admin", &path, acquire).await.0, 200);
    }
    guarded
}

#[tokio::test]
async fn an_overview_and_its_counts_have_only_the_leases_within_the_scope() {
    let guarded = with_some().await;
    for (name, expected) in [
        ("admin", vec!["a/x1", "a/y1", "b/z1", "c/x1"]),
        ("some", vec!["a/x1", "b/z1"]),
    ] {
        let mut seen = Value::Null;
        until("a walk over all leases", async || {
            seen = guarded.get(name, "/v1/overview").await.1;
            seen["leases"] == expected.len()
        })
        .await;
        let rows = seen["elections"].as_array().unwrap().iter();
        let rows = rows.map(|row| {
            let text = |field: &str| row[field].as_str().unwrap();
            assert_eq!(text("owner"), "admin");
            format!("{}/{}", text("namespace"), text("lease"))
        });
        assert_eq!(rows.collect::<Vec<_>>(), expected);
        assert_eq!(seen["states"]["leased"], expected.len());
        assert_eq!(seen["matching"], expected.len());
        let (_, of_c) = guarded.get(name, "/v1/overview?namespace=c").await;
        assert_eq!(of_c["matching"], usize::from(name == "admin"), "{of_c}");
    }
}

#[tokio::test]
async fn namespaces_are_those_with_leases_within_the_scope() {
    let guarded = with_some().await;
    let list = |counts: &[(&str, u32)]| {
        let namespaces = counts.iter();
        let namespaces =
            namespaces.map(|(name, leases)| json!({"namespace": name, "leases": leases}));
        json!({"namespaces": namespaces.collect::<Value>(), "next": null})
    };
    let path = "/v1/namespaces";
    let all = guarded.get("admin", path).await;
    assert_eq!(all, (200, list(&[("a", 2), ("b", 1), ("c", 1)])));
    assert_eq!(
        guarded.get("some", path).await,
        (200, list(&[("a", 1), ("b", 1)]))
    );
    // A namespace without a lease in scope is not shown.
    guarded.change(&[
        ("admin", &grant("admin", "*", "")),
        ("some", &grant("read", "*", "z")),
    ]);
    assert_eq!(guarded.get("some", path).await, (200, list(&[("b", 1)])));
}

#[tokio::test]
async fn the_stream_of_all_namespaces_has_the_events_within_the_scope_and_ends_without_one() {
    let guarded = with_some().await;
    let mut stream = guarded.stream("some", "/v1/events").await;
    let mut seen = String::new();
    let read = async |stream: &mut Response, seen: &mut String, text: &str| {
        while !seen.contains(text) {
            let chunk = tokio::time::timeout(SOON, stream.chunk()).await.unwrap();
            seen.push_str(std::str::from_utf8(&chunk.unwrap().unwrap()).unwrap());
        }
    };
    read(&mut stream, &mut seen, "reset").await;
    for name in ["c/x2", "a/y2", "a/x2", "b/q"] {
        let (namespace, lease) = name.split_once('/').unwrap();
        let path = format!("/v1/namespaces/{namespace}/leases/{lease}/acquire");
        let acquire = body_of("acquire", &id(1));
        assert_eq!(guarded.post("admin", &path, acquire).await.0, 200);
    }
    read(&mut stream, &mut seen, "\"q\"").await;
    assert!(
        seen.contains("\"x2\"") && !seen.contains("\"y2\""),
        "{seen}"
    );
    assert!(!seen.contains("\"namespace\":\"c\""), "{seen}");

    let admin = grant("admin", "*", "");
    let mut of_admin = guarded.stream("admin", "/v1/events").await;
    guarded.change(&[("admin", &admin), ("some", &grant("metrics", "", ""))]);
    let ended = async { while let Ok(Some(_)) = stream.chunk().await {} };
    tokio::time::timeout(SOON, ended).await.expect("the end");
    let (status, refused) = guarded.get("some", "/v1/events").await;
    assert_refused(&(status, refused), 403, "forbidden");
    // The stream of another principal goes on.
    let mut seen = String::new();
    let path = "/v1/namespaces/c/leases/later/acquire";
    let acquire = body_of("acquire", &id(1));
    assert_eq!(guarded.post("admin", path, acquire).await.0, 200);
    read(&mut of_admin, &mut seen, "\"later\"").await;
}

//! Tests of the right that each request needs.

use super::*;

#[tokio::test]
async fn an_operator_hands_over_without_a_lease_id_and_a_candidate_with_one() {
    let guarded = Guarded::start(&[
        ("candidate", &grant("candidate", "a", "")),
        ("operator", &grant("operator", "a", "")),
    ]);
    let path = "/v1/namespaces/a/leases/job/handover";
    let own = json!({"lease_id": id(1), "to": "c2", "within_ms": 1_000, "force": true});
    let any = json!({"to": "c2", "within_ms": 1_000, "force": true});
    for (name, body, expected) in [
        ("candidate", &own, 404),
        ("candidate", &any, 403),
        ("operator", &own, 403),
        ("operator", &any, 404),
    ] {
        let (status, answer) = guarded.post(name, path, body.clone()).await;
        assert_eq!(status, expected, "{name}: {answer}");
    }
}

#[tokio::test]
async fn without_a_credential_every_path_gets_the_same_401() {
    let guarded = Guarded::start(&[("a", &grant("admin", "*", ""))]);
    let mut bodies = BTreeSet::new();
    let paths = routes().iter().map(|route| {
        let path = path_of(route, "a", "job");
        (route.method.clone(), path, route.needs() == "nothing")
    });
    let unknown = [
        (Method::GET, "/v1/nothing".into(), false),
        (Method::DELETE, "/livez".into(), false),
        (
            Method::POST,
            "/v1/namespaces/%2e%2e/leases/x/renew".into(),
            false,
        ),
        (Method::GET, "/v1/namespaces/%ff/leases".into(), false),
    ];
    for (method, path, is_open) in paths.chain(unknown) {
        let response = guarded.send("", method.clone(), &path, json!({})).await;
        if is_open {
            assert_eq!(response.status(), 200, "{path}");
            continue;
        }
        assert_eq!(response.status(), 401, "{method} {path}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        assert!(!response.headers().contains_key("retry-after"));
        bodies.insert(response.text().await.unwrap());
    }
    assert_eq!(bodies.len(), 1, "{bodies:?}");
}

#[tokio::test]
async fn a_refusal_does_not_tell_whether_a_lease_exists() {
    let guarded = Guarded::start(&[
        ("owner", &grant("candidate", "billing", "")),
        ("other", &grant("operator", "ops", "")),
    ]);
    let lease = "/v1/namespaces/billing/leases/present";
    let (status, _) = guarded
        .post(
            "owner",
            &format!("{lease}/acquire"),
            body_of("acquire", &id(1)),
        )
        .await;
    assert_eq!(status, 200);
    for route in routes()
        .iter()
        .filter(|route| route.path.contains("{lease}"))
    {
        let mut texts = BTreeSet::new();
        for lease in ["present", "missing"] {
            let path = path_of(route, "billing", lease);
            let body = body_of(route.label, &id(1));
            let response = guarded
                .send("other", route.method.clone(), &path, body)
                .await;
            assert_eq!(response.status(), 403, "{path}");
            texts.insert(response.text().await.unwrap().replace(lease, "LEASE"));
        }
        assert_eq!(texts.len(), 1, "{texts:?}");
    }
}

#[tokio::test]
async fn an_escaped_name_needs_the_right_to_the_name_that_it_stands_for() {
    let guarded = Guarded::start(&[("worker", &grant("candidate", "a", "job"))]);
    for (path, expected) in [
        ("/v1/namespaces/a/leases/%6aob", 404),
        ("/v1/namespaces/%61/leases/job", 404),
        ("/v1/namespaces/a/leases/%6bob", 403),
        ("/v1/namespaces/%62/leases/job", 403),
    ] {
        assert_eq!(guarded.get("worker", path).await.0, expected, "{path}");
    }
}

#[test]
fn the_documents_name_the_right_of_every_route() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/access-control.md");
    let text = fs::read_to_string(path).expect("the document");
    let rows = text.lines().filter_map(|line| {
        let row = line.strip_prefix("| `")?.strip_suffix(" |")?;
        let (request, needs) = row.split_once("` | ")?;
        let is_route = request
            .split_once(' ')
            .is_some_and(|(_, path)| path.starts_with('/'));
        is_route.then_some((request.to_owned(), needs.to_owned()))
    });
    let documented: BTreeSet<_> = rows.collect();
    let in_force = routes().iter().map(|route| {
        let request = format!("{} {}", route.method, route.path);
        (request, route.needs())
    });
    assert_eq!(documented, in_force.collect());
}

#[tokio::test]
async fn an_epoch_more_than_thirty_days_ahead_needs_an_operator() {
    let guarded = Guarded::start(&[
        ("candidate", &grant("candidate", "a", "")),
        (
            "both",
            &[grant("candidate", "a", ""), grant("operator", "a", "")].join(", "),
        ),
    ]);
    let wall = u64::try_from(chrono::Utc::now().timestamp_millis()).unwrap();
    let day = 24 * 60 * 60 * 1_000;
    let acquire = async |name: &str, number: u8, epoch: Value| {
        let path = format!("/v1/namespaces/a/leases/job-{number}/acquire");
        let mut body = json!({"holder": "c1", "duration_ms": 1_000, "lease_id": id(1)});
        body.as_object_mut()
            .unwrap()
            .extend(epoch.as_object().unwrap().clone());
        guarded.post(name, &path, body).await
    };
    let min_epoch = |days: u64| json!({"min_epoch": wall + days * day});
    let resume = |days: u64| json!({"resume": {"epoch": wall + days * day, "without_store_ms": 1}});
    for (number, name, asked, expected) in [
        (1, "candidate", min_epoch(29), 200),
        (2, "candidate", min_epoch(31), 422),
        (3, "candidate", resume(31), 422),
        (4, "both", min_epoch(31), 200),
        (5, "both", resume(31), 200),
        (6, "both", min_epoch(101 * 365), 422),
    ] {
        let (status, answer) = acquire(name, number, asked.clone()).await;
        assert_eq!(status, expected, "{name} {asked}: {answer}");
        if (status, name) == (422, "candidate") {
            let detail = answer["detail"].as_str().unwrap();
            assert!(detail.contains("needs an operator"), "{detail}");
        }
    }
    // The lease has this epoch now, so candidates may go on above it.
    let path = "/v1/namespaces/a/leases/job-4/release";
    let (status, answer) = guarded.post("both", path, json!({"lease_id": id(1)})).await;
    assert_eq!(status, 200, "{answer}");
    let mut next = min_epoch(60);
    next["lease_id"] = json!(id(2));
    let (status, answer) = acquire("candidate", 4, next).await;
    assert_eq!(status, 200, "{answer}");
}

//! Access control over HTTP: who is let in, what each caller may do, and what ends when a right is
//! taken away.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{Running, SOON, id, served};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_server::access::{Access, Secret};
use tenure_server::audit::{Audit, AuditConfig, AuditTarget, verify};
use tenure_server::{Route, Server, Store, StoreConfig, routes};

/// A server with an access file.
struct Guarded {
    running: Running,
    access: Access,
    folder: TempDir,
    tokens: Vec<(String, Secret)>,
}

impl Guarded {
    /// Each principal has a token, and these grants.
    fn start(principals: &[(&str, &str)]) -> Self {
        Self::start_with(StoreConfig::memory(), principals)
    }

    fn start_audited(audit: Audit, principals: &[(&str, &str)]) -> Self {
        let started = Self::start(principals);
        let store = Store::open(StoreConfig::memory()).unwrap();
        let server = Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
        let server = server.with_access(started.access.clone()).with_audit(audit);
        Self {
            running: served(server),
            ..started
        }
    }

    fn start_with(config: StoreConfig, principals: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let tokens = principals.iter();
        let tokens = tokens.map(|(name, _)| ((*name).to_owned(), Secret::generate()));
        let tokens: Vec<_> = tokens.collect();
        let path = folder.path().join("access.toml");
        write(&path, &text(principals, &tokens));
        let access = Access::open(&path).unwrap();
        Self {
            running: serve_with(config, &access),
            access,
            folder,
            tokens,
        }
    }

    /// Restarts the store as another process with the same data.
    async fn restart(self, config: StoreConfig) -> Self {
        self.running.stop().await.unwrap();
        Self {
            running: serve_with(config, &self.access),
            ..self
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("access.toml")
    }

    /// Puts other grants in force; a principal that is left out is unknown from now on.
    fn change(&self, principals: &[(&str, &str)]) {
        write(&self.path(), &text(principals, &self.tokens));
        assert!(self.access.reload().unwrap());
    }

    fn token(&self, name: &str) -> &str {
        let token = self.tokens.iter().find(|(known, _)| known == name);
        token.unwrap().1.reveal()
    }

    async fn send(&self, name: &str, method: Method, path: &str, body: Value) -> Response {
        let request = self.running.api.request(method.clone(), path);
        let request = match name {
            "" => request,
            name => request.bearer_auth(self.token(name)),
        };
        let request = match method {
            Method::POST | Method::PUT => request.json(&body),
            _ => request,
        };
        request.send().await.unwrap()
    }

    async fn post(&self, name: &str, path: &str, body: Value) -> (u16, Value) {
        common::answer(self.send(name, Method::POST, path, body).await).await
    }

    async fn get(&self, name: &str, path: &str) -> (u16, Value) {
        common::answer(self.send(name, Method::GET, path, Value::Null).await).await
    }
}

fn serve_with(config: StoreConfig, access: &Access) -> Running {
    let store = Store::open(config).unwrap();
    let server = Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
    served(server.with_access(access.clone()))
}

fn write(path: &PathBuf, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, path).unwrap();
}

fn text(principals: &[(&str, &str)], tokens: &[(String, Secret)]) -> String {
    let principals = principals.iter().map(|(name, grants)| {
        let token = &tokens.iter().find(|(known, _)| known == name).unwrap().1;
        format!(
            "[[principal]]\nname = {name:?}\ngrants = [{grants}]\n\
             [[principal.secret]]\nid = \"{}\"\nsha256 = \"{}\"\n",
            token.id(),
            token.hash()
        )
    });
    format!("version = 1\n{}", principals.collect::<String>())
}

fn grant(role: &str, namespace: &str, prefix: &str) -> String {
    let prefix = match prefix {
        "" => String::new(),
        prefix => format!(", prefix = {prefix:?}"),
    };
    match role {
        "metrics" => "{ role = \"metrics\" }".into(),
        role => format!("{{ role = {role:?}, namespace = {namespace:?}{prefix} }}"),
    }
}

/// A path of this route, about a lease or its namespace.
fn path_of(route: &Route, namespace: &str, lease: &str) -> String {
    let path = route.path().replace("{namespace}", namespace);
    path.replace("{lease}", lease)
}

fn body_of(label: &str) -> Value {
    match label {
        "acquire" => json!({"holder": "c1", "duration_ms": 60_000, "lease_id": id(1)}),
        "renew" | "release" => json!({"lease_id": id(1)}),
        "change" => json!({"lease_id": id(1), "proposed_lease_id": id(2)}),
        "handover" => json!({"lease_id": id(1), "to": "c2", "within_ms": 1_000}),
        "verify" => json!({"epoch": 1}),
        "metadata" => json!({"lease_id": id(1), "metadata": {}}),
        "renew_many" => json!({"leases": []}),
        _ => json!({}),
    }
}

/// The matrix of rights, written by hand and apart from the table of routes: for each label the
/// roles that may send the request for a lease within their scope.
const MATRIX: [(&str, &str); 19] = [
    ("livez", "everybody"),
    ("readyz", "everybody"),
    ("limits", "read candidate operator metrics admin"),
    ("whoami", "read candidate operator metrics admin"),
    ("access", "admin"),
    ("list", "read candidate operator admin"),
    ("renew_many", "candidate admin"),
    ("view", "read candidate operator admin"),
    ("delete", "operator admin"),
    ("events", "read candidate operator admin"),
    ("history", "read candidate operator admin"),
    ("verify", "read candidate operator admin"),
    ("acquire", "candidate admin"),
    ("renew", "candidate admin"),
    ("change", "candidate admin"),
    ("release", "candidate admin"),
    ("metadata", "candidate admin"),
    ("handover", "candidate admin"),
    ("break", "operator admin"),
];

const ROLES: [&str; 5] = ["read", "candidate", "operator", "metrics", "admin"];

/// Scopes as `(namespace, prefix)`, and whether each covers the store, namespace `a`, lease
/// `a/job`.
const SCOPES: [(&str, &str, [bool; 3]); 5] = [
    ("*", "", [true, true, true]),
    ("a", "", [false, true, true]),
    ("a", "jo", [false, true, true]),
    ("a", "x", [false, true, false]),
    ("b", "", [false, false, false]),
];

/// Returns the index of the target that a route's right is for.
fn target_of(label: &str) -> usize {
    match label {
        "access" => 0,
        "list" | "renew_many" => 1,
        _ => 2,
    }
}

#[tokio::test]
async fn every_route_asks_for_the_right_of_the_matrix() {
    let names: Vec<(String, String, &str, [bool; 3])> = ROLES
        .into_iter()
        .flat_map(|role| {
            SCOPES.map(|(namespace, prefix, covers)| {
                let name = format!("{role}-{namespace}-{prefix}");
                (name, grant(role, namespace, prefix), role, covers)
            })
        })
        .collect();
    let principals: Vec<(&str, &str)> = names
        .iter()
        .map(|(name, grants, ..)| (&**name, &**grants))
        .collect();
    let guarded = Guarded::start(&[&principals[..], &[("none", "")]].concat());
    let labels: BTreeSet<&str> = routes().iter().map(Route::label).collect();
    assert_eq!(labels, MATRIX.iter().map(|(label, _)| *label).collect());
    for route in routes() {
        let label = route.label();
        let roles = MATRIX.iter().find(|(known, _)| *known == label).unwrap().1;
        let path = path_of(route, "a", "job");
        let status = async |name: &str| {
            let method = route.method().clone();
            let response = guarded.send(name, method, &path, body_of(label)).await;
            response.status().as_u16()
        };
        let is_open = roles == "everybody";
        assert_eq!(status("").await == 401, !is_open, "{label} without a token");
        let needs_credential_only = roles.contains("metrics");
        let expected = is_open || needs_credential_only;
        assert_eq!(
            status("none").await != 403,
            expected,
            "{label} without grants"
        );
        for (name, _, role, covers) in &names {
            // Metrics are of the whole store.
            let is_covered = covers[target_of(label)] || needs_credential_only;
            let is_allowed = is_open || roles.split(' ').any(|known| known == *role) && is_covered;
            let status = status(name).await;
            assert_ne!(status, 401, "{label} by {name}");
            assert_eq!(status != 403, is_allowed, "{label} by {name}: {status}");
        }
    }
}

#[tokio::test]
async fn an_operator_hands_over_without_a_lease_id_and_a_candidate_with_one() {
    let guarded = Guarded::start(&[
        ("candidate", &grant("candidate", "a", "")),
        ("operator", &grant("operator", "a", "")),
    ]);
    let path = "/v1/namespaces/a/leases/job/handover";
    let own = json!({"lease_id": id(1), "to": "c2", "within_ms": 1_000});
    let any = json!({"to": "c2", "within_ms": 1_000});
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
        (route.method().clone(), path, route.needs() == "nothing")
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
        .post("owner", &format!("{lease}/acquire"), body_of("acquire"))
        .await;
    assert_eq!(status, 200);
    for route in routes()
        .iter()
        .filter(|route| route.path().contains("{lease}"))
    {
        let mut texts = BTreeSet::new();
        for lease in ["present", "missing"] {
            let path = path_of(route, "billing", lease);
            let body = body_of(route.label());
            let response = guarded
                .send("other", route.method().clone(), &path, body)
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
    let stream = guarded
        .running
        .api
        .request(Method::GET, "/v1/namespaces/a/leases/events")
        .bearer_auth(guarded.token("some"))
        .header("accept", "text/event-stream");
    let mut stream = stream.send().await.unwrap();
    assert_eq!(stream.status(), 200);
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
async fn many_renewals_are_checked_one_by_one() {
    let guarded = Guarded::start(&[("worker", &grant("candidate", "a", "x"))]);
    let acquire = body_of("acquire");
    let path = "/v1/namespaces/a/leases/x1/acquire";
    assert_eq!(guarded.post("worker", path, acquire).await.0, 200);
    let leases = ["x1", "y1"].map(|lease| json!({"lease": lease, "lease_id": id(1)}));
    let (status, answer) = guarded
        .post(
            "worker",
            "/v1/namespaces/a/renew",
            json!({"leases": leases}),
        )
        .await;
    assert_eq!(status, 200);
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results[0]["holder"], "c1", "{answer}");
    assert_eq!(results[1]["code"], "forbidden", "{answer}");
}

#[tokio::test]
async fn a_lost_right_ends_streams_and_waiting_requests_within_a_second() {
    let principals = [
        ("holder", grant("candidate", "a", "")),
        ("worker", grant("candidate", "a", "")),
        ("other", grant("candidate", "a", "")),
    ];
    let principals = principals
        .each_ref()
        .map(|(name, grants)| (*name, &**grants));
    let guarded = Guarded::start(&principals);
    let lease = "/v1/namespaces/a/leases/job";
    let acquire = |holder: &str, number: u32| json!({"holder": holder, "duration_ms": 60_000, "lease_id": id(number), "wait_ms": 30_000});
    let path = format!("{lease}/acquire");
    let (status, held) = guarded.post("holder", &path, acquire("holder", 1)).await;
    assert_eq!(status, 200, "{held}");
    let mut streams = Vec::new();
    for (name, path) in [
        ("worker", format!("{lease}/events")),
        ("worker", "/v1/namespaces/a/leases/events".into()),
        ("other", format!("{lease}/events")),
    ] {
        let request = guarded.running.api.request(Method::GET, &path);
        let request = request.header("accept", "text/event-stream");
        let stream = request
            .bearer_auth(guarded.token(name))
            .send()
            .await
            .unwrap();
        assert_eq!(stream.status(), 200);
        streams.push(stream);
    }
    let waits = async {
        let began = Instant::now();
        let ends = async |mut stream: Response| while let Ok(Some(_)) = stream.chunk().await {};
        let other = streams.pop().unwrap();
        let (second, first) = (streams.pop().unwrap(), streams.pop().unwrap());
        let revision = held["revision"].as_u64().unwrap();
        let poll = format!("{lease}?after={revision}&wait_ms=30000");
        let waiting = guarded.post("worker", &path, acquire("worker", 2));
        let poll = guarded.get("worker", &poll);
        let ((waited, _), (polled, _), (), ()) =
            tokio::join!(waiting, poll, ends(first), ends(second));
        assert_eq!((waited, polled), (403, 403));
        let mut other = Box::pin(ends(other));
        let still_open = tokio::time::timeout(Duration::from_millis(50), &mut other).await;
        assert!(still_open.is_err(), "others feel nothing");
        began.elapsed()
    };
    let revoke = async {
        wait_for_waiters(&guarded, lease, 1).await;
        guarded.change(&[principals[0], principals[2]]);
        Instant::now()
    };
    let (_, revoked) = tokio::join!(
        async {
            tokio::time::timeout(SOON, waits)
                .await
                .expect("all have ended")
        },
        revoke
    );
    assert!(revoked.elapsed() < Duration::from_secs(1));
    // The revoked principal is out of the queue, and is not let in again.
    wait_for_waiters(&guarded, lease, 0).await;
    assert_eq!(guarded.get("worker", lease).await.0, 401);
    let release = json!({"lease_id": id(1)});
    let (status, view) = guarded
        .post("holder", &format!("{lease}/release"), release)
        .await;
    assert_eq!(
        (status, &view["state"]),
        (200, &json!("available")),
        "{view}"
    );
}

async fn wait_for_waiters(guarded: &Guarded, lease: &str, expected: u64) {
    let wait = async {
        while guarded.get("holder", lease).await.1["waiters"] != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, wait)
        .await
        .expect("the number of waiters");
}

#[tokio::test]
async fn wrong_credentials_are_limited_by_address_and_valid_ones_are_not() {
    let guarded = Guarded::start(&[("worker", &grant("candidate", "a", ""))]);
    let lease = "/v1/namespaces/a/leases/job";
    let path = format!("{lease}/acquire");
    assert_eq!(
        guarded.post("worker", &path, body_of("acquire")).await.0,
        200
    );
    let wrong = Secret::generate();
    let mut statuses = Vec::new();
    for _ in 0..200 {
        let request = guarded.running.api.request(Method::GET, lease);
        let response = request.bearer_auth(wrong.reveal()).send().await.unwrap();
        let status = response.status().as_u16();
        assert_eq!(
            response.headers().contains_key("retry-after"),
            status == 429
        );
        statuses.push(status);
        let (status, _) = guarded
            .post("worker", &format!("{lease}/renew"), body_of("renew"))
            .await;
        assert_eq!(status, 200);
    }
    let refused = statuses.iter().filter(|status| **status == 401).count();
    assert!((10..=12).contains(&refused), "{refused} times 401");
    assert_eq!(
        statuses.iter().filter(|status| **status == 429).count(),
        200 - refused
    );
}

#[tokio::test]
async fn a_caller_sees_its_own_rights_and_an_administrator_all_principals() {
    let guarded = Guarded::start(&[
        ("admin", &grant("admin", "*", "")),
        ("worker", &grant("candidate", "a", "x")),
    ]);
    let (status, own) = guarded.get("worker", "/v1/whoami").await;
    assert_eq!(status, 200);
    let worker = &guarded.tokens[1].1;
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
    for (_, token) in &guarded.tokens {
        let text = all.to_string();
        assert!(!text.contains(&token.hash().to_string()) && !text.contains(token.reveal()));
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
        let request = format!("{} {}", route.method(), route.path());
        (request, route.needs())
    });
    assert_eq!(documented, in_force.collect());
}

/// Every request that needs a lease id, with this one; the last one acquires.
fn with_lease_id(lease_id: &str) -> [(Method, &'static str, Value); 6] {
    [
        (Method::POST, "renew", json!({"lease_id": lease_id})),
        (
            Method::POST,
            "change",
            json!({"lease_id": lease_id, "proposed_lease_id": id(9)}),
        ),
        (
            Method::PUT,
            "metadata",
            json!({"lease_id": lease_id, "metadata": {}}),
        ),
        (
            Method::POST,
            "handover",
            json!({"lease_id": lease_id, "to": "c2", "within_ms": 1_000}),
        ),
        (Method::POST, "release", json!({"lease_id": lease_id})),
        (
            Method::POST,
            "acquire",
            json!({"lease_id": lease_id, "holder": "c1", "duration_ms": 60_000}),
        ),
    ]
}

/// A stolen lease id gets the thief the same answers as a wrong one, and the lease stays.
async fn assert_stolen_is_useless(guarded: &Guarded) {
    let lease = "/v1/namespaces/a/leases/job";
    let before = guarded.get("worker", lease).await.1;
    assert_eq!(before["owner"], "worker", "{before}");
    let without_time = |mut problem: Value| {
        problem.as_object_mut().unwrap().remove("remaining_ms");
        problem
    };
    for (stolen, wrong) in with_lease_id(&id(1)).into_iter().zip(with_lease_id(&id(7))) {
        let mut answers = Vec::new();
        for (method, verb, body) in [stolen, wrong] {
            let path = format!("{lease}/{verb}");
            let answer = guarded.send("thief", method, &path, body).await;
            let (status, problem) = common::answer(answer).await;
            assert_eq!(status, 409, "{verb}: {problem}");
            answers.push(without_time(problem));
        }
        assert_eq!(answers[0], answers[1]);
    }
    let many = json!({"leases": [{"lease": "job", "lease_id": id(1)}]});
    let (_, many) = guarded.post("thief", "/v1/namespaces/a/renew", many).await;
    assert_eq!(many["results"][0]["code"], "lease_id_mismatch", "{many}");
    let after = guarded.get("worker", lease).await.1;
    assert_eq!(
        (&after["epoch"], &after["revision"]),
        (&before["epoch"], &before["revision"])
    );
    let renew = guarded
        .post("worker", &format!("{lease}/renew"), body_of("renew"))
        .await;
    assert_eq!(renew.0, 200, "{renew:?}");
}

#[tokio::test]
async fn a_stolen_lease_id_is_useless_also_after_a_restart() {
    let principals = [
        ("worker", grant("candidate", "a", "")),
        ("thief", grant("candidate", "a", "")),
    ];
    let principals = principals
        .each_ref()
        .map(|(name, grants)| (*name, &**grants));
    let data = TempDir::new().unwrap();
    let config = || StoreConfig::embedded(data.path().join("data"));
    let guarded = Guarded::start_with(config(), &principals);
    let path = "/v1/namespaces/a/leases/job/acquire";
    let (status, granted) = guarded.post("worker", path, body_of("acquire")).await;
    assert_eq!(
        (status, &granted["owner"]),
        (200, &json!("worker")),
        "{granted}"
    );
    assert_stolen_is_useless(&guarded).await;
    let guarded = guarded.restart(config()).await;
    assert_stolen_is_useless(&guarded).await;
    let history = guarded
        .get("worker", "/v1/namespaces/a/leases/job/history")
        .await
        .1;
    assert_eq!(history["terms"][0]["owner"], "worker", "{history}");

    // The next term is of its own principal; the history has both, also after a restart.
    let release = "/v1/namespaces/a/leases/job/release";
    assert_eq!(
        guarded.post("worker", release, body_of("release")).await.0,
        200
    );
    let acquire = json!({"lease_id": id(3), "holder": "c2", "duration_ms": 60_000});
    assert_eq!(guarded.post("thief", path, acquire).await.0, 200);
    let guarded = guarded.restart(config()).await;
    let history = guarded
        .get("worker", "/v1/namespaces/a/leases/job/history")
        .await
        .1;
    let owners = [0, 1].map(|index| history["terms"][index]["owner"].clone());
    assert_eq!(owners, ["thief", "worker"], "{history}");
}

#[tokio::test]
async fn a_lease_of_an_open_store_stays_with_its_lease_id_until_its_term_ends() {
    let data = TempDir::new().unwrap();
    let config = || StoreConfig::embedded(data.path().join("data"));
    let open = common::start(config());
    let acquire = open
        .api
        .request(Method::POST, "/v1/namespaces/a/leases/job/acquire");
    let granted = common::answer(acquire.json(&body_of("acquire")).send().await.unwrap()).await;
    assert_eq!(
        (granted.0, &granted.1["owner"]),
        (200, &Value::Null),
        "{granted:?}"
    );
    open.stop().await.unwrap();
    let worker = grant("candidate", "a", "");
    let guarded = Guarded::start_with(config(), &[("worker", &worker)]);
    let renew = "/v1/namespaces/a/leases/job/renew";
    assert_eq!(guarded.post("worker", renew, body_of("renew")).await.0, 200);
}

#[tokio::test]
async fn operators_changes_and_refused_credentials_are_in_the_audit_log() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(AuditTarget::File(path.clone()))).unwrap();
    let principals = [
        ("worker", grant("candidate", "a", "")),
        ("ada", grant("operator", "a", "")),
    ];
    let principals = principals
        .each_ref()
        .map(|(name, grants)| (*name, &**grants));
    let guarded = Guarded::start_audited(audit, &principals);
    let lease = "/v1/namespaces/a/leases/job";
    let acquire = format!("{lease}/acquire");
    assert_eq!(
        guarded.post("worker", &acquire, body_of("acquire")).await.0,
        200
    );
    let by_worker = guarded
        .post("worker", &format!("{lease}/break"), json!({}))
        .await;
    assert_eq!(by_worker.0, 403);
    let to = json!({"to": "c2", "within_ms": 1_000});
    assert_eq!(
        guarded
            .post("ada", &format!("{lease}/handover"), to)
            .await
            .0,
        200
    );
    let reason = json!({"break_period_ms": 0, "reason": "bad release"});
    assert_eq!(
        guarded
            .post("ada", &format!("{lease}/break"), reason)
            .await
            .0,
        200
    );
    let deleted = guarded
        .send("ada", Method::DELETE, lease, Value::Null)
        .await;
    let refused = deleted.status();
    let wrong = Secret::generate();
    for _ in 0..100 {
        let request = guarded.running.api.request(Method::GET, lease);
        request.bearer_auth(wrong.reveal()).send().await.unwrap();
    }
    let lines = || {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        (text.clone(), lines.collect::<Vec<_>>())
    };
    let waited = async {
        while lines().1.len() < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, waited)
        .await
        .expect("four lines");
    let (text, lines) = lines();
    let kinds: Vec<_> = lines
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["handover", "break", "delete", "credential"]);
    for line in &lines[..3] {
        assert_eq!(
            (&line["principal"], &line["via"]),
            (&json!("ada"), &json!("token"))
        );
        assert_eq!(
            (&line["election"], &line["address"]),
            (&json!("a/job"), &json!("127.0.0.1"))
        );
    }
    let ada = guarded.tokens[1].1.id().to_string();
    assert_eq!(
        (&lines[1]["reason"], &lines[1]["secret"]),
        (&json!("bad release"), &json!(ada))
    );
    assert_eq!(
        (&lines[1]["holder"], &lines[1]["owner"]),
        (&json!("c1"), &json!("worker"))
    );
    let outcome = if refused == 204 { "done" } else { "lease_held" };
    assert_eq!(lines[2]["outcome"], outcome);
    assert_eq!(lines[3]["count"], 1);
    assert!(verify(&[&path]).unwrap().is_some());
    // No lease id and no token.
    assert!(!text.contains(&id(1)) && !text.contains("tnr1_"), "{text}");
}

#[tokio::test]
async fn a_flood_of_wrong_tokens_costs_the_leaders_of_its_address_nothing() {
    const LEADERS: u32 = 50;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(AuditTarget::File(path.clone()))).unwrap();
    let worker = grant("candidate", "a", "");
    let guarded = Guarded::start_audited(audit, &[("worker", &worker)]);
    let lease = |number: u32| format!("/v1/namespaces/a/leases/job-{number}");
    for number in 0..LEADERS {
        let acquire = json!({"holder": "c1", "duration_ms": 15_000, "lease_id": id(number + 1)});
        let path = format!("{}/acquire", lease(number));
        assert_eq!(guarded.post("worker", &path, acquire).await.0, 200);
    }
    let flood = async {
        let wrong = Secret::generate();
        let mut refused = [0; 2];
        for _ in 0..100 {
            let batch = (0..100).map(|_| {
                let request = guarded.running.api.request(Method::GET, "/v1/limits");
                request.bearer_auth(wrong.reveal()).send()
            });
            for response in futures_util::future::join_all(batch).await {
                match response.unwrap().status().as_u16() {
                    401 => refused[0] += 1,
                    429 => refused[1] += 1,
                    status => panic!("a wrong token got {status}"),
                }
            }
        }
        refused
    };
    let mut flood = std::pin::pin!(flood);
    let mut renewals = 0;
    let refused = loop {
        let round = futures_util::future::join_all((0..LEADERS).map(|number| {
            let renew = json!({"lease_id": id(number + 1)});
            let path = format!("{}/renew", lease(number));
            let guarded = &guarded;
            async move {
                let (status, view) = guarded.post("worker", &path, renew).await;
                assert_eq!((status, &view["epoch"].is_u64()), (200, &true), "{view}");
            }
        }));
        tokio::select! {
            refused = &mut flood => break refused,
            _ = round => renewals += LEADERS,
        }
    };
    assert_eq!(refused[0] + refused[1], 10_000);
    // Ten at once, and one more in six seconds.
    assert!((10..=30).contains(&refused[0]), "{refused:?}");
    assert!(renewals >= LEADERS, "{renewals}");
    for number in 0..LEADERS {
        assert_eq!(
            guarded.get("worker", &lease(number)).await.1["state"],
            "leased"
        );
    }
    let lines = fs::read_to_string(&path).unwrap().lines().count();
    assert!(lines <= 15, "{lines} lines");
}

//! The fake itself: the errors, versions and watches on which the other tests rely.

use std::time::Duration;

use serde_json::{Value, json};
use tenure_tests::Limit;

use super::api::Api;
use super::{LEASE, NAMESPACE};

struct Client {
    http: reqwest::Client,
    leases: String,
}

impl Client {
    fn of(api: &Api) -> Self {
        let base = "apis/coordination.k8s.io/v1/namespaces";
        Self {
            http: tenure_tests::client::plain_http().build().unwrap(),
            leases: format!("{}/{base}/{NAMESPACE}/leases", api.url()),
        }
    }

    async fn post(&self, object: &Value) -> (u16, Value) {
        answer(self.http.post(&self.leases).json(object)).await
    }

    async fn put(&self, object: &Value) -> (u16, Value) {
        answer(
            self.http
                .put(format!("{}/{LEASE}", self.leases))
                .json(object),
        )
        .await
    }

    async fn merge(&self, patch: &Value) -> (u16, Value) {
        self.patch("merge-patch+json", "", patch).await
    }

    async fn apply(&self, manager: &str, force: bool, object: &Value) -> (u16, Value) {
        let query = format!("?fieldManager={manager}&force={force}");
        self.patch("apply-patch+yaml", &query, object).await
    }

    async fn patch(&self, kind: &str, query: &str, object: &Value) -> (u16, Value) {
        let request = self.http.patch(format!("{}/{LEASE}{query}", self.leases));
        let request = request.header("content-type", format!("application/{kind}"));
        answer(request.body(object.to_string())).await
    }

    async fn get(&self) -> (u16, Value) {
        answer(self.http.get(format!("{}/{LEASE}", self.leases))).await
    }

    /// The events of a watch of one second.
    async fn watch(&self, after: &str) -> Vec<(String, Value)> {
        let url = format!(
            "{}?watch=true&timeoutSeconds=1&resourceVersion={after}",
            self.leases
        );
        let text = self.http.get(url).send().await.unwrap().text();
        let text = tokio::time::timeout(Duration::from_secs(5), text).await;
        let text = text.unwrap().unwrap();
        let lines = text.lines().map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            (
                event["type"].as_str().unwrap().to_owned(),
                event["object"].clone(),
            )
        });
        lines.collect()
    }
}

async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

fn reason((status, body): (u16, Value)) -> (u16, String) {
    (
        status,
        body["reason"].as_str().unwrap_or_default().to_owned(),
    )
}

fn refused(status: u16, reason: &str) -> (u16, String) {
    (status, reason.into())
}

#[tokio::test]
async fn the_fake_refuses_what_an_api_server_refuses() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let client = Client::of(&api);
    assert_eq!(reason(client.get().await), refused(404, "NotFound"));
    let lease = json!({ "metadata": { "name": LEASE }, "spec": {} });
    let (status, created) = client.post(&lease).await;
    assert_eq!(status, 201);
    assert_eq!(
        reason(client.post(&lease).await),
        refused(409, "AlreadyExists")
    );
    assert_eq!(reason(client.put(&lease).await), refused(422, "Invalid"));
    // A write without a change makes no version.
    assert_eq!(client.put(&created).await, (200, created.clone()));
    let mut changed = created.clone();
    changed["spec"] = json!({ "leaseTransitions": 1, "colour": "unknown" });
    let (status, newer) = client.put(&changed).await;
    assert_eq!(status, 200);
    assert_eq!(newer["spec"], json!({ "leaseTransitions": 1 }));
    assert_eq!(reason(client.put(&changed).await), refused(409, "Conflict"));
    changed["metadata"]["resourceVersion"] = "newest".into();
    assert_eq!(reason(client.put(&changed).await), refused(500, ""));
    assert_eq!(reason(client.post(&changed).await), refused(500, ""));
    for name in ["-a", "a.", "a..b", "A", &"a".repeat(254)] {
        let wrong = json!({ "metadata": { "name": name } });
        assert_eq!(reason(client.post(&wrong).await), refused(422, "Invalid"));
    }
    let mut large = newer.clone();
    large["metadata"]["annotations"] = json!({ "a": "b".repeat(300_000) });
    assert_eq!(reason(client.put(&large).await), refused(422, "Invalid"));
    for (key, wrong, expected) in [
        ("leaseDurationSeconds", json!(0), refused(422, "Invalid")),
        ("leaseTransitions", json!(-1), refused(422, "Invalid")),
        (
            "leaseDurationSeconds",
            json!(1.5),
            refused(400, "BadRequest"),
        ),
        (
            "renewTime",
            json!("2026-11-21T12:00:00Z"),
            refused(400, "BadRequest"),
        ),
    ] {
        let mut invalid = newer.clone();
        invalid["spec"][key] = wrong;
        assert_eq!(reason(client.put(&invalid).await), expected, "{key}");
    }
    // An object that was deleted is created again by a write only if that knows no uid.
    api.delete();
    assert_eq!(reason(client.put(&newer).await), refused(409, "Conflict"));
    assert_eq!(reason(client.get().await), refused(404, "NotFound"));
    let mut again = newer.clone();
    again["metadata"]["uid"] = Value::Null;
    assert_eq!(client.put(&again).await.0, 201);
    api.set_tokens(&[("valid", "pod")]);
    assert_eq!(reason(client.get().await), refused(401, "Unauthorized"));
}

#[tokio::test]
async fn a_patch_names_a_version_or_replaces_whatever_is_there() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let client = Client::of(&api);
    let patch = json!({ "spec": { "holderIdentity": "one", "leaseDurationSeconds": null } });
    assert_eq!(reason(client.merge(&patch).await), refused(404, "NotFound"));
    let lease = json!({ "metadata": { "name": LEASE, "annotations": { "kept": "yes" } },
        "spec": { "leaseDurationSeconds": 5 } });
    let (_, created) = client.post(&lease).await;
    let (status, merged) = client.merge(&patch).await;
    assert_eq!(status, 200);
    assert_eq!(merged["spec"], json!({ "holderIdentity": "one" }));
    assert_eq!(merged["metadata"]["annotations"]["kept"], "yes");
    let mut stale = patch.clone();
    stale["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    assert_eq!(reason(client.merge(&stale).await), refused(409, "Conflict"));
    let unknown = client.patch("json-patch+json", "", &json!([])).await;
    assert_eq!(reason(unknown), refused(415, "UnsupportedMediaType"));
}

#[tokio::test]
async fn an_applied_patch_owns_its_fields() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let client = Client::of(&api);
    let lease = |spec: Value| json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec });
    let both = lease(json!({ "holderIdentity": "one", "leaseTransitions": 1 }));
    let (status, created) = client.apply("one", false, &both).await;
    assert_eq!((status, &created["metadata"]["name"]), (201, &json!(LEASE)));
    let anonymous = client.patch("apply-patch+yaml", "", &both).await;
    assert_eq!(reason(anonymous), refused(400, "BadRequest"));
    // Another manager needs force to change a field, and owns it afterwards.
    let other = lease(json!({ "holderIdentity": "two" }));
    let conflict = client.apply("two", false, &other).await;
    assert_eq!(reason(conflict), refused(409, "Conflict"));
    assert_eq!(client.apply("two", true, &other).await.0, 200);
    // A manager that no longer names its field removes it, but not that of another one.
    let (_, left) = client.apply("one", false, &lease(json!({}))).await;
    assert_eq!(left["spec"], json!({ "holderIdentity": "two" }));
    // A write that is not applied takes the field.
    client
        .merge(&json!({ "spec": { "holderIdentity": "three" } }))
        .await;
    let (_, left) = client.apply("two", false, &lease(json!({}))).await;
    assert_eq!(left["spec"], json!({ "holderIdentity": "three" }));
    let mut stale = other;
    stale["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    let stale = client.apply("two", true, &stale).await;
    assert_eq!(reason(stale), refused(409, "Conflict"));
}

#[tokio::test]
async fn a_watch_shows_each_version_once_and_forgotten_ones_are_gone() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let client = Client::of(&api);
    let lease = json!({ "metadata": { "name": LEASE }, "spec": {} });
    let (_, created) = client.post(&lease).await;
    let mut changed = created.clone();
    changed["spec"] = json!({ "leaseTransitions": 1 });
    client.put(&changed).await;
    api.delete();
    let kinds = |events: Vec<(String, Value)>| -> Vec<String> {
        events.into_iter().map(|(kind, _)| kind).collect()
    };
    assert_eq!(
        kinds(client.watch("0").await),
        ["ADDED", "MODIFIED", "DELETED"]
    );
    assert_eq!(kinds(client.watch("2").await), ["DELETED"]);
    api.compact();
    let events = client.watch("0").await;
    assert_eq!(events[0].0, "ERROR");
    assert_eq!(events[0].1["code"], 410);
}

//! Tests of the description of the API: the committed file, the rows of the table and the page of
//! the API agree with it. The tests in `tests/api` compare it with the answers of a store.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use tenure_server::{StoreConfig, routes};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// The variable that makes the test below write the file.
const UPDATE: &str = "TENURE_UPDATE_OPENAPI";

async fn description() -> Value {
    let running = crate::common::start(StoreConfig::memory());
    let url = format!("{}/openapi.json", running.api.origin);
    let response = running.api.http.get(url).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
    response.json().await.unwrap()
}

#[tokio::test]
async fn the_committed_description_is_that_of_the_store() {
    let path = format!("{DOCS}/openapi.json");
    let description = description().await;
    if std::env::var_os(UPDATE).is_some() {
        let text = format!("{description:#}\n");
        fs::write(&path, text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let committed: Value = serde_json::from_str(&committed).unwrap_or_default();
    let difference = difference("", &committed, &description);
    assert!(
        difference.is_none(),
        "docs/openapi.json differs from the description of the store at {}; to update it:\n\
         {UPDATE}=1 cargo test -p tenure-server --test http openapi",
        difference.unwrap_or_default()
    );
}

/// Returns the first place at which two documents differ.
fn difference(path: &str, one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            keys.into_iter().find_map(|key| {
                let of = |object: &serde_json::Map<_, _>| object.get(key).cloned();
                let (one, other) = (of(one), of(other));
                let path = format!("{path}/{key}");
                match (one, other) {
                    (Some(one), Some(other)) => difference(&path, &one, &other),
                    _ => Some(path),
                }
            })
        }
        _ => (one != other).then(|| path.to_owned()),
    }
}

#[tokio::test]
async fn every_route_is_described() {
    let description = description().await;
    let mut described = BTreeSet::new();
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(described.insert(id.to_owned()), "{id} is there twice");
            let route = routes().iter().find(|route| route.label == id);
            let Some(route) = route else {
                // The stream of a namespace has the path of a lease.
                assert_eq!(id, "namespace_events");
                continue;
            };
            assert_eq!(route.path, path, "{id}");
            assert_eq!(route.method.as_str().to_lowercase(), *method, "{id}");
            let is_open = operation["security"] == serde_json::json!([]);
            assert_eq!(is_open, route.needs() == "nothing", "{id}");
            let statuses = operation["responses"].as_object().unwrap();
            assert_eq!(statuses.contains_key("401"), !is_open, "{id}");
        }
    }
    for route in routes() {
        assert!(described.contains(route.label), "{}", route.label);
    }
}

#[tokio::test]
async fn the_page_of_the_api_lists_every_route_of_the_description_and_no_other() {
    let description = description().await;
    let paths = description["paths"].as_object().unwrap();
    let described = paths.iter().flat_map(|(path, operations)| {
        let methods = operations.as_object().unwrap().keys();
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    let page = fs::read_to_string(format!("{DOCS}/http-api.md")).unwrap();
    let rows = page.lines().filter_map(|line| {
        let (request, _) = line.strip_prefix("| `")?.split_once('`')?;
        let (method, path) = request.split_once(" ")?;
        let is_method = method.bytes().all(|byte| byte.is_ascii_uppercase());
        let path = path.split('?').next()?;
        let path = match path.strip_prefix("{lease}") {
            Some(rest) => format!("/v1/namespaces/{{namespace}}/leases/{{lease}}{rest}"),
            None => path.to_owned(),
        };
        is_method.then(|| format!("{method} {path}"))
    });
    assert_eq!(described.collect::<BTreeSet<_>>(), rows.collect());
}

#[tokio::test]
async fn the_description_has_the_limits_that_the_checks_use() {
    use tenure_core::wire::{MAX_REASON_BYTES, MAX_RENEWALS, MAX_WAIT};
    let description = description().await;
    let property = |schema: &str, name: &str| {
        description["components"]["schemas"][schema]["properties"][name].clone()
    };
    let reason = property("BreakRequest", "reason");
    assert_eq!(reason["maxLength"], MAX_REASON_BYTES, "{reason}");
    let wait = property("AcquireRequest", "wait_ms");
    assert_eq!(wait["maximum"], MAX_WAIT.as_millis() as u64, "{wait}");
    let leases = property("RenewManyRequest", "leases");
    assert_eq!(leases["maxItems"], MAX_RENEWALS, "{leases}");
}

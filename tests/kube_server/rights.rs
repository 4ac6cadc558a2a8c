//! The rights of candidates.

use std::fs;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tenure_tests::process::{output, stdout};

use super::{Bench, LEASE, terminate};

/// Long enough for a leader that no fault disturbs.
const DURATION: Duration = Duration::from_secs(15);

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/kubernetes-lease.md");

/// The manifests of the page, in another namespace.
fn manifests(namespace: &str) -> Vec<String> {
    let page = fs::read_to_string(PAGE).unwrap();
    let block = page.split("```yaml\n").nth(1).unwrap();
    let block = block.split("```").next().unwrap();
    let manifests = block.split("---\n");
    let of = |it: &str| it.replace("namespace: jobs", &format!("namespace: {namespace}"));
    manifests.map(of).collect()
}

#[test]
fn the_rights_of_the_page_are_enough_for_a_candidate_and_its_commands() {
    let test = "the_rights_of_the_page_are_enough_for_a_candidate_and_its_commands";
    let Some(bench) = Bench::new(test, DURATION) else {
        return;
    };
    let namespace = &bench.place.namespace;
    let manifests = manifests(namespace);
    assert_eq!(manifests.len(), 2);
    for (kind, manifest) in ["roles", "rolebindings"].iter().zip(manifests) {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{kind}");
        let answer = bench
            .server
            .admin_as(Method::POST, &path, "application/yaml", manifest);
        assert_eq!(answer.as_ref().map(|it| it.0), Some(201), "{answer:?}");
    }
    let mut leader = bench.run("leader");
    bench.wait_for_term("leader", 0);
    let mut follower = bench.run("follower");
    Bench::wait_for_follower(&follower);
    let mut status = bench.place.tenure_with(&["status", "tests/job"]);
    let status = output(&mut status);
    assert!(stdout(&status).contains("leader"), "{status:?}");
    let doctor = output(&mut bench.place.tenure_with(&["doctor"]));
    assert!(doctor.status.success(), "{doctor:?}");
    assert_eq!(terminate(&mut leader), ["shut_down"]);
    bench.wait_for_term("follower", 0);
    assert_eq!(terminate(&mut follower), ["shut_down"]);
    bench.assert_one_at_a_time();
}

#[test]
fn rights_on_one_object_are_enough_if_it_exists() {
    let test = "rights_on_one_object_are_enough_if_it_exists";
    let Some(bench) = Bench::new(test, DURATION) else {
        return;
    };
    let namespace = &bench.place.namespace;
    let rules = json!([{ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
        "resourceNames": [LEASE], "verbs": ["get", "update"] }]);
    bench.server.grant(namespace, "worker", "worker", &rules);
    let mut without = bench.run("without-an-object");
    assert_eq!(without.wait().code(), Some(77), "{}", without.stderr());
    assert!(without.stderr().contains("create"), "{}", without.stderr());
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    bench
        .server
        .create(&path, &json!({ "metadata": { "name": LEASE } }));
    let mut leader = bench.run("leader");
    bench.wait_for_term("leader", 0);
    assert_eq!(terminate(&mut leader), ["shut_down"]);
}

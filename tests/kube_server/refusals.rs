//! Refusals that are no missing rights: candidates wait until they are over.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tenure_tests::api_server::lease_path;
use tenure_tests::process::{Process, output, stdout};
use tenure_tests::wait_for;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::hook::{Does, Hook};
use super::{Bench, LEASE, ends, terminate, wait_for_ends};

/// A leader gives its term up after two thirds of this time.
const DURATION: Duration = Duration::from_secs(6);

/// A leader and a follower.
fn pair(bench: &Bench) -> [Process; 2] {
    let leader = bench.run("leader");
    bench.wait_for_term("leader", 0);
    let follower = bench.run("follower");
    Bench::wait_for_follower(&follower);
    [leader, follower]
}

/// Checks what all refusals have in common: no term ended but by its deadline, this number of times,
/// and no candidate.
fn expect_end(bench: &Bench, candidates: &mut [Process; 2], lost: usize) {
    let ended: Vec<String> = candidates.iter_mut().flat_map(terminate).collect();
    let mut expected = vec!["renew_deadline"; lost];
    expected.push("shut_down");
    let mut sorted = ended.clone();
    sorted.sort();
    // The other candidate may lead for a moment, after the first one was terminated.
    sorted.truncate(expected.len());
    assert_eq!(sorted, expected, "{ended:?}");
    for candidate in candidates {
        let stderr = candidate.stderr();
        assert!(!stderr.contains("a Role must"), "{stderr}");
    }
    bench.assert_one_at_a_time();
}

#[test]
#[ignore = "takes half a minute"]
fn a_policy_ends_a_term_by_its_deadline_and_candidates_go_on_when_it_is_removed() {
    let test = "a_policy_ends_a_term_by_its_deadline_and_candidates_go_on_when_it_is_removed";
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    const BINDINGS: &str =
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    let Some(bench) = Bench::new(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let mut candidates = pair(&bench);
    let namespace = &bench.place.namespace;
    let reasons = ["Invalid", "Forbidden", "RequestEntityTooLarge"];
    for (index, reason) in reasons.into_iter().enumerate() {
        let name = reason.to_lowercase();
        let metadata = json!({ "name": name });
        let rules = json!([{ "apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"],
            "resources": ["leases"], "operations": ["CREATE", "UPDATE"] }]);
        let policy = json!({ "metadata": metadata, "spec": { "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": rules },
            "validations": [{ "expression": "false", "reason": reason, "message": name }] } });
        let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
        let binding = json!({ "metadata": metadata, "spec": { "policyName": name,
            "validationActions": ["Deny"], "matchResources": { "namespaceSelector": selector } } });
        bench.server.create(POLICIES, &policy);
        bench.server.create(BINDINGS, &binding);
        // The leader loses its term, and both try to take the object meanwhile.
        wait_for("the end of the term", || {
            let lost = candidates
                .iter()
                .flat_map(ends)
                .filter(|it| it == "renew_deadline");
            (lost.count() == index + 1).then_some(())
        });
        for candidate in &candidates {
            wait_for(reason, || candidate.stderr().contains(&name).then_some(()));
        }
        bench
            .server
            .must(Method::DELETE, &format!("{BINDINGS}/{name}"), None);
        bench
            .server
            .must(Method::DELETE, &format!("{POLICIES}/{name}"), None);
        wait_for("another term", || {
            (bench.terms().len() == index + 2).then_some(())
        });
    }
    expect_end(&bench, &mut candidates, reasons.len());
}

#[test]
#[ignore = "takes two minutes"]
fn a_webhook_that_refuses_with_any_status_ends_a_term_by_its_deadline_and_no_candidate() {
    let test =
        "a_webhook_that_refuses_with_any_status_ends_a_term_by_its_deadline_and_no_candidate";
    let Some(bench) = Bench::new(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let hook = Hook::start(&bench);
    let mut candidate = bench.run("candidate");
    bench.wait_for_term("candidate", 0);
    let statuses = [
        400, 401, 403, 404, 405, 409, 410, 413, 422, 429, 500, 502, 503, 504,
    ];
    for (index, status) in statuses.into_iter().enumerate() {
        hook.set(Does::Refuse(status));
        let ends = wait_for_ends(&candidate, index + 1);
        assert_eq!(
            ends[index],
            "renew_deadline",
            "{status}: {}",
            candidate.stderr()
        );
        hook.set(Does::Allow);
        bench.wait_for_term("candidate", index + 1);
    }
    let stderr = candidate.stderr();
    assert!(stderr.contains("planted refusal"), "{stderr}");
    assert_eq!(terminate(&mut candidate).last().unwrap(), "shut_down");
    bench.assert_one_at_a_time();
}

#[test]
#[ignore = "takes half a minute"]
fn a_webhook_that_hangs_ends_a_term_by_its_deadline_and_a_short_one_does_not() {
    let test = "a_webhook_that_hangs_ends_a_term_by_its_deadline_and_a_short_one_does_not";
    let duration = 2 * DURATION;
    let Some(bench) = Bench::new(test, duration).map(Bench::with_rights) else {
        return;
    };
    let hook = Hook::start(&bench);
    let mut candidate = bench.run("candidate");
    bench.wait_for_term("candidate", 0);
    bench.wait_for_renewal();
    hook.set(Does::Hang);
    std::thread::sleep(duration / 6);
    hook.set(Does::Allow);
    bench.wait_for_renewal();
    bench.wait_for_renewal();
    hook.set(Does::Hang);
    assert_eq!(wait_for_ends(&candidate, 1), ["renew_deadline"]);
    hook.set(Does::Allow);
    bench.wait_for_term("candidate", 1);
    assert_eq!(terminate(&mut candidate), ["renew_deadline", "shut_down"]);
    bench.assert_one_at_a_time();
}

#[test]
#[ignore = "takes half a minute"]
fn a_webhook_that_changes_the_object_does_not_make_two_leaders() {
    let test = "a_webhook_that_changes_the_object_does_not_make_two_leaders";
    let Some(bench) = Bench::new(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let hook = Hook::start(&bench);
    let mut candidates = pair(&bench);
    let mark = "/metadata/annotations/tenure~1term";
    // The term goes on with each of these.
    for change in [
        json!([{ "op": "add", "path": "/metadata/labels", "value": { "team": "billing" } }]),
        json!([{ "op": "add", "path": "/metadata/annotations/added", "value": "yes" }]),
        json!([{ "op": "replace", "path": "/spec/holderIdentity", "value": "" }]),
        json!([{ "op": "replace", "path": "/spec/leaseDurationSeconds", "value": 1 }]),
        json!([{ "op": "remove", "path": mark }]),
    ] {
        hook.set(Does::Change(change.clone()));
        bench.wait_for_renewal();
        bench.wait_for_renewal();
        hook.set(Does::Allow);
        bench.wait_for_renewal();
        assert_eq!(
            bench.terms().len(),
            1,
            "{change}: {}",
            candidates[0].stderr()
        );
        bench.assert_one_at_a_time();
    }
    // Another holder in each write: nobody leads until it is over.
    let holder = json!([{ "op": "replace", "path": "/spec/holderIdentity", "value": "other" }]);
    hook.set(Does::Change(holder));
    let ended = wait_for_ends(&candidates[0], 1);
    assert!(
        ["superseded", "renew_deadline"].contains(&&*ended[0]),
        "{ended:?}"
    );
    hook.set(Does::Allow);
    wait_for("another term", || (bench.terms().len() > 1).then_some(()));
    for candidate in &mut candidates {
        terminate(candidate);
    }
    bench.assert_one_at_a_time();
}

#[test]
#[ignore = "takes half a minute"]
fn a_quota_keeps_a_candidate_waiting_until_it_allows_the_object() {
    let test = "a_quota_keeps_a_candidate_waiting_until_it_allows_the_object";
    let Some(bench) = Bench::new(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let quotas = format!(
        "/api/v1/namespaces/{}/resourcequotas",
        bench.place.namespace
    );
    let hard = json!({ "count/leases.coordination.k8s.io": "0" });
    let quota = json!({ "metadata": { "name": "none" }, "spec": { "hard": hard } });
    bench.server.create(&quotas, &quota);
    // No controller runs that counts the objects, so the test says that there are none.
    let status = json!({ "status": { "hard": hard, "used": hard } });
    let path = format!("{quotas}/none");
    bench
        .server
        .must(Method::PATCH, &format!("{path}/status"), Some(&status));
    let mut candidate = bench.run("candidate");
    wait_for("the refusal", || {
        candidate.stderr().contains("exceeded quota").then_some(())
    });
    // A missing right would have ended it by now.
    std::thread::sleep(Duration::from_secs(5));
    assert!(!candidate.has_ended(), "{}", candidate.stderr());
    assert!(
        !candidate.stderr().contains("a Role must"),
        "{}",
        candidate.stderr()
    );
    bench.server.must(Method::DELETE, &path, None);
    bench.wait_for_term("candidate", 0);
    assert_eq!(terminate(&mut candidate), ["shut_down"]);
}

#[test]
#[ignore = "takes half a minute"]
fn a_namespace_that_ends_keeps_candidates_waiting_until_it_is_made_again() {
    let test = "a_namespace_that_ends_keeps_candidates_waiting_until_it_is_made_again";
    let Some(bench) = Bench::new(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let namespace = bench.place.namespace.clone();
    let mut candidate = bench.run("candidate");
    bench.wait_for_term("candidate", 0);
    // An object in a namespace that ends can be renewed. No controller runs that deletes it.
    let path = format!("/api/v1/namespaces/{namespace}");
    bench.server.must(Method::DELETE, &path, None);
    bench.wait_for_renewal();
    bench
        .server
        .must(Method::DELETE, &lease_path(&namespace, LEASE), None);
    assert_eq!(wait_for_ends(&candidate, 1), ["superseded"]);
    wait_for("the refusal", || {
        candidate
            .stderr()
            .contains("is being terminated")
            .then_some(())
    });
    assert!(
        !candidate.stderr().contains("a Role must"),
        "{}",
        candidate.stderr()
    );
    let doctor = output(&mut bench.place.tenure_with(&["doctor"]));
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    assert!(
        stdout(&doctor).contains("is being terminated"),
        "{doctor:?}"
    );
    bench.server.end_namespace(&path);
    std::thread::sleep(Duration::from_secs(5));
    assert!(!candidate.has_ended(), "{}", candidate.stderr());
    // The account and its rights are still there: no controller has deleted them.
    let made = json!({ "metadata": { "name": namespace } });
    bench.server.create("/api/v1/namespaces", &made);
    bench.wait_for_term("candidate", 1);
    assert_eq!(terminate(&mut candidate), ["superseded", "shut_down"]);
    bench.assert_one_at_a_time();
}

#[test]
#[ignore = "takes a minute"]
fn refusals_by_priority_and_fairness_are_named_and_end_a_term_by_its_deadline_only() {
    let test = "refusals_by_priority_and_fairness_are_named_and_end_a_term_by_its_deadline_only";
    let duration = 3 * DURATION;
    let Some(bench) = Bench::new(test, duration).map(Bench::with_rights) else {
        return;
    };
    let mut candidates = pair(&bench);
    bench.wait_for_renewal();
    let limit = Limited::start(&bench);
    std::thread::sleep(duration / 9);
    drop(limit);
    bench.wait_for_renewal();
    assert_eq!(bench.terms().len(), 1, "{}", candidates[0].stderr());
    let limit = Limited::start(&bench);
    assert_eq!(wait_for_ends(&candidates[0], 1), ["renew_deadline"]);
    drop(limit);
    wait_for("another term", || (bench.terms().len() == 2).then_some(()));
    let stderr = candidates[0].stderr();
    assert!(
        stderr.contains("429") && !stderr.contains("not an answer of"),
        "{stderr}"
    );
    expect_end(&bench, &mut candidates, 1);
}

/// All requests of the namespace's account are refused with 429: its priority level has one seat, and a
/// request whose body never arrives has it.
struct Limited<'a> {
    bench: &'a Bench,
    _seat: tokio_rustls::client::TlsStream<TcpStream>,
}

const FLOWS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";

impl<'a> Limited<'a> {
    fn start(bench: &'a Bench) -> Self {
        let namespace = &bench.place.namespace;
        let metadata = json!({ "name": namespace });
        let level = json!({ "metadata": metadata, "spec": { "type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": { "type": "Reject" } } } });
        let all = json!(["*"]);
        let rules = json!({ "subjects": [{ "kind": "ServiceAccount",
                "serviceAccount": { "namespace": namespace, "name": "worker" } }],
            "resourceRules": [{ "verbs": all, "apiGroups": all, "resources": all,
                "namespaces": all }] });
        let flow = json!({ "metadata": metadata, "spec": { "matchingPrecedence": 2,
            "priorityLevelConfiguration": metadata, "rules": [rules] } });
        bench.server.create(LEVELS, &level);
        bench.server.create(FLOWS, &flow);
        let token = bench.server.token(namespace, "worker");
        let seat = wait_for("the limit", || {
            let seat = bench.server.runtime().block_on(take_seat(bench, &token));
            std::thread::sleep(Duration::from_millis(100));
            let path = lease_path(namespace, LEASE);
            let asked = bench.server.request(Method::GET, &path, &token, None)?;
            (asked.0 == 429).then_some(seat)
        });
        Self { bench, _seat: seat }
    }
}

impl Drop for Limited<'_> {
    fn drop(&mut self) {
        for of in [FLOWS, LEVELS] {
            let path = format!("{of}/{}", self.bench.place.namespace);
            self.bench.server.try_admin(Method::DELETE, &path, None);
        }
    }
}

/// Sends a request without its body.
async fn take_seat(bench: &Bench, token: &str) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(bench.server.ca_file()).unwrap();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(bench.server.address()).await.unwrap();
    let name = ServerName::from(bench.server.address().ip());
    let connector = TlsConnector::from(std::sync::Arc::new(config));
    let mut stream = connector.connect(name, stream).await.unwrap();
    let path = lease_path(&bench.place.namespace, "never");
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

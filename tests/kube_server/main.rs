//! Candidates that elect by a `Lease` object of a real Kubernetes API server, also beside candidates of
//! other programs as published. The tests that need minutes run only if asked.

// The fake is written for other tests, too.
#[allow(dead_code)]
#[path = "../kubernetes/api/mod.rs"]
mod api;
mod requests;

mod release;
mod rights;

mod objects;
mod others;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_tests::Limit;
use tenure_tests::api_server::{ApiServer, Versions};
use tenure_tests::electors::{Elector, Place};
use tenure_tests::process::Process;
use tenure_tests::proxy::Proxy;
use tenure_tests::ticks::{Term, overlaps, terms};
use tenure_tests::wait_for;

/// The object of the tests.
const LEASE: &str = "tests.job";

/// The namespace of the comparison with the fake.
const NAMESPACE: &str = "apps";

/// A namespace with an object, and candidates for it.
struct Bench {
    test: &'static str,
    server: Arc<ApiServer>,
    folder: TempDir,
    place: Place,
    _limit: Limit,
}

impl Bench {
    /// A namespace of the server that the tests share; `None` if the test cannot run.
    fn new(test: &'static str, duration: Duration) -> Option<Self> {
        Self::on(test, ApiServer::shared(test)?, duration)
    }

    /// The same on a server of its own, which the test may stop.
    fn alone(test: &'static str, duration: Duration) -> Option<Self> {
        Self::on(test, Arc::new(ApiServer::start(test)?), duration)
    }

    fn on(test: &'static str, server: Arc<ApiServer>, duration: Duration) -> Option<Self> {
        // A namespace has at most 63 characters.
        let namespace = test.replace('_', "-").chars().take(60).collect::<String>();
        let namespace = namespace.trim_end_matches('-').to_owned();
        server.create_namespace(&namespace);
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            url: format!("https://{}", server.address()),
            files: folder.path().join("pod"),
            namespace,
            lease: LEASE.into(),
            duration,
            ticks: folder.path().join("ticks"),
        };
        server.write_pod_files(&place.files, &place.namespace, "worker");
        Some(Self {
            test,
            server,
            folder,
            place,
            _limit: Limit::start(),
        })
    }

    /// The same with all rights of a candidate.
    fn with_rights(self) -> Self {
        self.grant("worker", &json!(["get", "create", "update"]));
        self
    }

    /// Gives a service account these rights on leases.
    fn grant(&self, account: &str, verbs: &Value) {
        let rules = json!([{ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "verbs": verbs }]);
        self.server
            .grant(&self.place.namespace, account, account, &rules);
    }

    /// The server, if this test has it alone.
    fn server_mut(&mut self) -> &mut ApiServer {
        Arc::get_mut(&mut self.server).expect("a server of its own")
    }

    /// A proxy in front of the server, and the place of a candidate behind it.
    fn proxy(&self) -> (Proxy, Place) {
        let proxy = Proxy::start(self.server.address());
        let proxy = self.server.runtime().block_on(proxy).unwrap();
        let place = Place {
            url: format!("https://{}", proxy.address()),
            ..self.place.clone()
        };
        (proxy, place)
    }

    /// Starts a candidate at the server.
    fn start(&self, elector: Elector, id: &str) -> Option<Process> {
        self.start_at(elector, id, &self.place)
    }

    fn start_at(&self, elector: Elector, id: &str, place: &Place) -> Option<Process> {
        let mut command = elector.command(self.test, id, place)?;
        Some(Process::spawn(&mut command))
    }

    /// Starts `tenure run`.
    fn run(&self, id: &str) -> Process {
        self.start(Elector::Tenure, id).expect("a command")
    }

    fn versions(&self) -> Versions {
        self.server.watch(&self.place.namespace, LEASE)
    }

    fn lease(&self) -> Value {
        let lease = self.server.lease(&self.place.namespace, LEASE);
        lease.expect("an object")
    }

    fn edit(&self, edit: impl Fn(&mut Value)) {
        let namespace = &self.place.namespace;
        assert!(self.server.edit(namespace, LEASE, "by-hand", edit));
    }

    fn terms(&self) -> Vec<Term> {
        terms(&self.place.ticks)
    }

    /// Waits for a term of this candidate, after this number of them.
    fn wait_for_term(&self, id: &str, after: usize) -> Term {
        wait_for(&format!("a term of {id}"), || {
            let terms = self.terms();
            terms.into_iter().filter(|it| it.candidate == id).nth(after)
        })
    }

    /// Waits until this candidate follows a leader of tenure.
    fn wait_for_follower(process: &Process) {
        wait_for("a follower", || {
            process.stderr().contains("\"following\"").then_some(())
        });
    }

    /// Waits for the next renewal of the object.
    fn wait_for_renewal(&self) {
        let renewed = || self.lease()["spec"]["renewTime"].clone();
        let before = renewed();
        wait_for("a renewal", || (renewed() != before).then_some(()));
    }

    /// Checks that no two candidates led at once, and that epochs increase.
    fn assert_one_at_a_time(&self) {
        assert_one_of(&self.terms());
    }

    /// The same for candidates of tenure, beside others whose programs may be late.
    fn assert_one_of_ours_at_a_time(&self) {
        let terms = self.terms();
        assert_one_of(
            &terms
                .into_iter()
                .filter(|it| it.epoch > 0)
                .collect::<Vec<_>>(),
        );
    }
}

fn assert_one_of(terms: &[Term]) {
    let found = overlaps(terms);
    assert!(found.is_empty(), "violation of safety: {found:?}");
    let epochs = terms.iter().map(|it| it.epoch).filter(|it| *it > 0);
    let epochs: Vec<u64> = epochs.collect();
    let increase = epochs.is_sorted_by(|one, next| one < next);
    assert!(increase, "violation of safety: {epochs:?}");
}

/// The reasons for which the terms of a candidate ended, oldest first.
fn ends(process: &Process) -> Vec<String> {
    let stderr = process.stderr();
    let lines = stderr.lines();
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lost = lines.filter(|line| line["message"] == "leadership lost");
    lost.map(|line| line["reason"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Waits for the end of this number of terms.
fn wait_for_ends(process: &Process, count: usize) -> Vec<String> {
    wait_for("the end of a term", || {
        let ends = ends(process);
        (ends.len() >= count).then_some(ends)
    })
}

/// Ends a candidate, which must succeed, and returns the reasons for which its terms ended.
fn terminate(process: &mut Process) -> Vec<String> {
    process.signal(nix::sys::signal::Signal::SIGTERM);
    let status = process.wait();
    assert!(status.success(), "{status}\n{}", process.stderr());
    ends(process)
}

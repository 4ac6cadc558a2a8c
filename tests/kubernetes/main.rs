//! Candidates that elect by a `Lease` object of a Kubernetes cluster, against a fake of its API
//! server, also together with candidates of other programs. A real cluster never took part.

mod api;
mod client_go;
mod faults;
mod kube_rs;
mod looks;
mod others;
mod pods;
mod rights;
mod terms;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tenure::config::{KubernetesLease, Strategy};
use tenure::{Candidate, Config, OnOverrun};
use tenure_tests::Limit;
use tenure_tests::process::{Process, command};
use tenure_tests::receiver::Receiver;
use tokio::runtime::Runtime;

use api::Api;

/// The election of the tests, and its object.
const ELECTION: &str = "tests/job";
const NAMESPACE: &str = "apps";
const LEASE: &str = "tests.job";

/// The lease duration of most tests: long enough for a machine that delays a candidate.
const DURATION: Duration = Duration::from_secs(4);

/// A server, and a receiver that checks the actions of leaders.
struct Bench {
    runtime: Runtime,
    folder: TempDir,
    api: Api,
    receiver: Receiver,
    _limit: Limit,
}

impl Bench {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let api = runtime.block_on(Api::start());
        Self {
            runtime,
            folder: tempfile::tempdir().unwrap(),
            api,
            receiver: Receiver::start(),
            _limit: Limit::start(),
        }
    }

    /// Starts a candidate process. Its token is its id.
    fn candidate(&self, id: &str) -> Process {
        Process::spawn(&mut self.candidate_command(id, &self.api.url(), DURATION))
    }

    fn candidate_command(&self, id: &str, url: &str, duration: Duration) -> Command {
        let token = self.token_file(id);
        fs::write(&token, id).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure-test-candidate"));
        command
            .arg(self.receiver.address().to_string())
            .args(["http://127.0.0.1:1", ELECTION, id])
            .arg(duration.as_millis().to_string())
            .arg(self.freeze_file(id))
            .env("TENURE_ELECTION", ELECTION)
            .env("TENURE_STRATEGY", "kubernetes")
            .env("TENURE_KUBERNETES_URL", url)
            .env("TENURE_KUBERNETES_NAMESPACE", NAMESPACE)
            .env("TENURE_KUBERNETES_TOKEN_FILE", token);
        command
    }

    /// Starts `tenure run`, whose program writes the time, the id and the epoch into a file again and
    /// again. Its token is its id.
    fn run(&self, id: &str, duration: Duration) -> Process {
        self.run_after("", id, duration)
    }

    /// The same, whose program runs this script before.
    fn run_after(&self, script: &str, id: &str, duration: Duration) -> Process {
        let token = self.token_file(id);
        fs::write(&token, id).unwrap();
        let duration = format!("{}s", duration.as_secs());
        let script = format!(
            "{script}\nwhile true; do echo $(date +%s%N) {id} $TENURE_EPOCH >> {}; sleep 0.02; done",
            self.log_file().display()
        );
        let mut command = command(&["run", "--election", ELECTION, "--candidate", id]);
        command
            .args(["--strategy", "kubernetes", "--lease-duration", &duration])
            .args(["--", "sh", "-c", &script])
            .env("TENURE_KUBERNETES_URL", self.api.url())
            .env("TENURE_KUBERNETES_NAMESPACE", NAMESPACE)
            .env("TENURE_KUBERNETES_TOKEN_FILE", token);
        Process::spawn(&mut command)
    }

    /// The lines of the programs of [`Bench::run`].
    fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn token_file(&self, id: &str) -> PathBuf {
        self.folder.path().join(format!("token-{id}"))
    }

    /// If this file exists, the candidate freezes between its check and its action.
    fn freeze_file(&self, id: &str) -> PathBuf {
        self.folder.path().join(format!("freeze-{id}"))
    }

    /// Waits until this candidate has read the object while another one holds it.
    fn wait_for_follower(&self, id: &str) {
        let count = || self.api.asked().iter().filter(|it| it.user == id).count();
        let before = count();
        tenure_tests::wait_for("a waiting candidate", || {
            (count() > before + 2).then_some(())
        });
    }

    /// Waits for the next renewal of the object.
    fn wait_for_renewal(&self) {
        let renewed = || self.api.lease().unwrap()["spec"]["renewTime"].clone();
        let before = renewed();
        tenure_tests::wait_for("a renewal", || (renewed() != before).then_some(()));
    }

    /// Checks the actions of leaders and all versions of the object.
    fn verify(&self) {
        assert!(!self.receiver.acts().is_empty(), "there was no leader");
        self.receiver.assert_one_at_a_time();
        assert_epochs_increase(&self.api);
    }
}

/// Checks that each version of the object has the epoch of the version before, or a greater one
/// under another lease id.
fn assert_epochs_increase(api: &Api) {
    let mut last: Option<(u64, String)> = None;
    for event in api.events() {
        let annotations = &event.object["metadata"]["annotations"];
        let Some(term) = annotations["tenure/term"].as_str() else {
            continue;
        };
        let parts: Vec<_> = term.splitn(8, '/').collect();
        let epoch: u64 = parts[1].parse().expect("an epoch");
        let lease_id = parts[6];
        if let Some((before, of)) = &last {
            let is_same = epoch == *before && lease_id == of;
            assert!(epoch > *before || is_same, "{before} {of} -> {term}");
        }
        last = Some((epoch, lease_id.into()));
    }
}

/// The holder of the object; empty if there is none.
fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

/// The configuration of a candidate in this process.
fn config(id: &str, api: &Api) -> Config {
    let server = api.url().parse().unwrap();
    let lease = KubernetesLease::new(server, NAMESPACE, LEASE).unwrap();
    Config::new(ELECTION.parse().unwrap())
        .with_candidate(id.parse().unwrap())
        .with_adjusted_timings(|timings| {
            timings.lease_duration = Some(DURATION);
            timings.cool_down = Some(Duration::ZERO);
        })
        .unwrap()
        .with_strategy(Strategy::Kubernetes(lease))
        // The tests keep guards of lost terms.
        .with_on_overrun(OnOverrun::Report)
}

async fn candidate(id: &str, api: &Api) -> Candidate {
    Candidate::start(config(id, api)).await.unwrap()
}

//! The metrics of candidates and peers, and the status listener of `tenure run`.

mod counts;
mod facade;
mod families;
mod leads;
mod listener;
mod peers;
mod processes;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use tempfile::TempDir;
use tenure_tests::process::{Process, StoreProcess, command};
use tenure_tests::wait_for;
use tokio::runtime::Runtime;

/// The election of the tests.
const ELECTION: &str = "tests/job";

/// The lease duration of the tests: the renew interval is a second, the renew deadline two seconds.
const LEASE: &str = "3s";

/// A store, and an HTTP client.
struct Bench {
    store: StoreProcess,
    folder: TempDir,
    web: Web,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = StoreProcess::start(&folder.path().join("store"));
        let web = Web::new();
        Self { store, folder, web }
    }

    /// `tenure run` with a status listener on a free port.
    fn command(&self, candidate: &str) -> Command {
        self.command_at("127.0.0.1:0", candidate)
    }

    /// `tenure run` with a status listener at this address.
    fn command_at(&self, address: &str, candidate: &str) -> Command {
        let mut run = command(&["run", "--election", ELECTION, "--candidate", candidate]);
        run.args(["--server", &self.store.url()])
            .args(["--status-listen", address])
            .env("TENURE_LEASE_DURATION", LEASE)
            // A command that ends late on a busy machine must not end the process.
            .env("TENURE_ON_OVERRUN", "report")
            .env("TENURE_COOL_DOWN", "100ms");
        run
    }

    /// A candidate with this program as its command.
    fn run(&self, candidate: &str, program: &[&str]) -> Candidate {
        Candidate::spawn(self.command(candidate).arg("--").args(program))
    }

    /// A candidate that leads.
    fn leader(&self, candidate: &str) -> Candidate {
        let candidate = self.run(candidate, &["sleep", "1000"]);
        self.web.wait_until_leads(candidate.status, true);
        candidate
    }
}

/// A process of `tenure run`, and the address of its status listener.
struct Candidate {
    process: Process,
    status: SocketAddr,
}

impl Candidate {
    fn spawn(command: &mut Command) -> Self {
        let process = Process::spawn(command);
        let status = status_address(&process);
        Self { process, status }
    }
}

/// The address of a status listener, from the log.
fn status_address(process: &Process) -> SocketAddr {
    wait_for("the status listener", || {
        let log = process.stderr();
        let line = log
            .lines()
            .find(|line| line.contains("serving the status"))?;
        let (_, rest) = line.split_once("address=")?;
        rest.split_whitespace().next()?.parse().ok()
    })
}

/// An HTTP client.
struct Web {
    runtime: Runtime,
    http: reqwest::Client,
}

impl Web {
    fn new() -> Self {
        let http = tenure_tests::client::plain_http();
        let http = http.timeout(Duration::from_secs(20)).build();
        Self {
            runtime: Runtime::new().expect("a runtime"),
            http: http.expect("a client"),
        }
    }

    /// The status and the body of an answer; `None` if there is none.
    fn get(&self, address: SocketAddr, path: &str) -> Option<(StatusCode, String)> {
        let request = self.http.get(format!("http://{address}{path}"));
        self.runtime.block_on(async {
            let answer = request.send().await.ok()?;
            Some((answer.status(), answer.text().await.ok()?))
        })
    }

    /// The status of an answer to a `POST` request.
    fn post(&self, address: SocketAddr, path: &str) -> StatusCode {
        let request = self.http.post(format!("http://{address}{path}"));
        let answer = self.runtime.block_on(async { request.send().await });
        answer.expect("an answer").status()
    }

    fn metrics(&self, address: SocketAddr) -> Samples {
        let request = self.http.get(format!("http://{address}/metrics"));
        let text = self.runtime.block_on(async {
            let answer = request.send().await.expect("an answer");
            let content_type = &answer.headers()[CONTENT_TYPE];
            assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
            answer.text().await.expect("a body")
        });
        Samples::read(&text)
    }

    /// Waits until a sample has a value for which `is_right` returns true, and returns the value.
    #[track_caller]
    fn wait_for_sample(
        &self,
        address: SocketAddr,
        name: &str,
        is_right: impl Fn(f64) -> bool,
    ) -> f64 {
        wait_for(name, || {
            let value = self.metrics(address).get(name);
            is_right(value).then_some(value)
        })
    }

    #[track_caller]
    fn wait_until_leads(&self, address: SocketAddr, leads: bool) {
        wait_for("the expected answer of /leader", || {
            let (status, _) = self.get(address, "/leader")?;
            ((status == StatusCode::OK) == leads).then_some(())
        });
    }
}

/// The samples of a text, by their names and labels without those of the candidate.
struct Samples {
    text: String,
    values: BTreeMap<String, f64>,
}

impl Samples {
    fn read(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let values = lines.map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (short(name), value.parse().expect("a number"))
        });
        Self {
            values: values.collect(),
            text: text.to_owned(),
        }
    }

    /// The value of a sample. The name is without `tenure_`, such as
    /// `candidate_terms_total{end="resigned"}`.
    #[track_caller]
    fn get(&self, name: &str) -> f64 {
        let value = self.values.get(name);
        *value.unwrap_or_else(|| panic!("no {name}: {}", self.text))
    }
}

/// The name of a sample without the prefix, and without the labels that all samples have.
fn short(name: &str) -> String {
    let name = name
        .strip_prefix("tenure_")
        .expect("the prefix of all names");
    let Some((name, labels)) = name.split_once('{') else {
        return name.to_owned();
    };
    let labels = labels.trim_end_matches('}').split(',');
    let common = ["election=", "candidate=", "cluster="];
    let own: Vec<_> = labels
        .filter(|label| !common.iter().any(|common| label.starts_with(common)))
        .collect();
    if own.is_empty() {
        name.to_owned()
    } else {
        format!("{name}{{{}}}", own.join(","))
    }
}

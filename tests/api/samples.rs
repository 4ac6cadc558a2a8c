//! The samples of `docs/languages.md`, as a reader copies them from the page.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tenure_tests::needs::{can_run, has_program, skipped};
use tenure_tests::process::Process;
use tenure_tests::proxy::{Proxy, ProxyMode};
use tenure_tests::{wait_for, wait_until};

use crate::Store;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/languages.md");

/// The duration of the lease in the samples.
const LEASE: Duration = Duration::from_secs(15);

/// A sample of the page.
#[derive(Clone, Copy)]
enum Sample {
    Shell,
    Python,
    Go,
}

impl Sample {
    /// Whether the programs that the sample needs are installed.
    fn can_run(self, test: &str) -> bool {
        match self {
            Self::Shell => {
                let programs = ["sh", "curl", "jq", "setsid"];
                can_run(
                    test,
                    "curl and jq",
                    programs.iter().all(|name| has_program(name)),
                )
            }
            Self::Python => can_run(test, "python3", has_program("python3")),
            // The compiler is too large for a tool that tests install.
            Self::Go => {
                let has_it = has_program("go");
                if !has_it {
                    skipped(test, "it needs the Go compiler");
                }
                has_it
            }
        }
    }

    /// Writes the sample to this folder, and returns the command that runs it. The first argument
    /// of the environment is the store.
    fn command(self, folder: &Path) -> Command {
        let (language, file) = match self {
            Self::Shell => ("sh", "lead.sh"),
            Self::Python => ("python", "lead.py"),
            Self::Go => ("go", "lead.go"),
        };
        let page = fs::read_to_string(PAGE).expect("the page");
        let start = format!("```{language}\n");
        let (_, code) = page.split_once(&start).expect("a sample");
        let (code, _) = code.split_once("```").expect("the end of a sample");
        let path = folder.join(file);
        fs::write(&path, code).expect("a file");
        match self {
            Self::Shell => {
                // The program under the script writes once per second.
                let work = "while true; do curl --silent --max-time 2 --header \"tenure-epoch: \
                            $EPOCH\" --data x \"$RECEIVER\"; sleep 1; done";
                let mut command = Command::new("sh");
                command.arg(path).args(["sh", "-c", work]);
                command
            }
            Self::Python => {
                let mut command = Command::new("python3");
                command.arg(path);
                command
            }
            Self::Go => {
                let program = folder.join("lead");
                let build = Command::new("go")
                    .arg("build")
                    .arg("-o")
                    .args([&program, &path])
                    .output();
                let built = build.expect("the compiler runs");
                assert!(built.status.success(), "{built:?}");
                Command::new(program)
            }
        }
    }
}

/// A receiver of writes: it records the epoch of each, and its time.
struct Receiver {
    url: String,
    writes: Arc<Mutex<Vec<(u64, Instant)>>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let writes = Arc::<Mutex<Vec<_>>>::default();
        let sink = Arc::clone(&writes);
        thread::spawn(move || {
            for mut connection in listener.incoming().map_while(Result::ok) {
                let lines = BufReader::new(&connection).lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let epoch = head.iter().find_map(|line| {
                    let (name, value) = line.split_once(": ")?;
                    let is_epoch = name.eq_ignore_ascii_case("tenure-epoch");
                    is_epoch.then(|| value.parse().expect("an epoch"))
                });
                let write = (epoch.expect("an epoch"), Instant::now());
                sink.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(write);
                let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
                let _ = connection.write_all(answer);
            }
        });
        Self { url, writes }
    }

    fn writes(&self) -> Vec<(u64, Instant)> {
        self.writes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn epochs(&self) -> BTreeSet<u64> {
        self.writes().into_iter().map(|(epoch, _)| epoch).collect()
    }
}

/// Candidates that run a sample at one store.
struct Candidates {
    store: Store,
    receiver: Receiver,
    sample: Sample,
}

impl Candidates {
    fn new(sample: Sample) -> Self {
        Self {
            store: Store::start(),
            receiver: Receiver::start(),
            sample,
        }
    }

    fn start(&self, server: &str) -> Process {
        let mut command = self.sample.command(self.store.folder.path());
        command
            .env("SERVER", server)
            .env("TOKEN", &self.store.token);
        Process::spawn(command.env("RECEIVER", &self.receiver.url))
    }

    /// The terms so far, the newest first.
    async fn terms(&self) -> Vec<Value> {
        let url = format!(
            "{}/v1/namespaces/billing/leases/nightly/history",
            self.store.url()
        );
        let request = reqwest::Client::new()
            .get(url)
            .bearer_auth(&self.store.token);
        let history: Value = request
            .send()
            .await
            .expect("an answer")
            .json()
            .await
            .expect("JSON");
        history["terms"].as_array().cloned().unwrap_or_default()
    }
}

/// The sample leads, hands over when it ends, and stops its writes before the lease ends when the
/// store no longer answers.
async fn leads_and_stops_in_time(test: &str, sample: Sample) {
    if !sample.can_run(test) {
        return;
    }
    let candidates = Candidates::new(sample);
    let url = candidates.store.url();
    let first = candidates.start(&url);
    let epoch = wait_for("a write of the first", || {
        candidates.receiver.epochs().first().copied()
    });
    let second = candidates.start(&url);
    wait_until("a waiter", async || {
        let lease = format!("{url}/v1/namespaces/billing/leases/nightly");
        let request = reqwest::Client::new()
            .get(lease)
            .bearer_auth(&candidates.store.token);
        let view: Value = request.send().await.ok()?.json().await.ok()?;
        (view["waiters"] == 1).then_some(())
    })
    .await;
    assert_eq!(candidates.receiver.epochs().len(), 1, "{}", second.stderr());
    first.signal(Signal::SIGTERM);
    wait_for("a write of the second", || {
        (candidates.receiver.epochs().len() > 1).then_some(())
    });
    let terms = candidates.terms().await;
    assert_eq!(
        (&terms[1]["epoch"], &terms[1]["end"]),
        (&epoch.into(), &"released".into())
    );
    let epochs: Vec<u64> = candidates
        .receiver
        .writes()
        .into_iter()
        .map(|(epoch, _)| epoch)
        .collect();
    assert!(epochs.is_sorted(), "{epochs:?}");

    candidates.store.process.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    let last = *candidates.receiver.epochs().last().expect("an epoch");
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
    candidates.store.process.signal(Signal::SIGCONT);
    let mut of_term = candidates
        .receiver
        .writes()
        .into_iter()
        .filter(|(epoch, _)| *epoch == last);
    let last = of_term.next_back().expect("a write").1;
    assert!(
        last < stopped + LEASE,
        "a write {:?} after the stop of the store",
        last - stopped
    );
}

/// An acquire whose answer comes when the lease has expired begins no work.
async fn counts_from_the_request(test: &str, sample: Sample) {
    if !sample.can_run(test) {
        return;
    }
    let candidates = Candidates::new(sample);
    let proxy = Proxy::start(candidates.store.address)
        .await
        .expect("a proxy");
    proxy.set(ProxyMode::HangReplies);
    let candidate = candidates.start(&format!("http://{}", proxy.address()));
    let stale = wait_until("a term", async || candidates.terms().await.first().cloned()).await;
    wait_until("its end", async || {
        let terms = candidates.terms().await;
        terms
            .first()
            .is_some_and(|term| term["end"] == "expired")
            .then_some(())
    })
    .await;
    proxy.set(ProxyMode::Pass);
    match sample {
        // The script ends.
        Sample::Shell => {
            let mut candidate = candidate;
            assert_eq!(candidate.wait().code(), Some(1), "{}", candidate.stderr());
        }
        Sample::Python | Sample::Go => {
            wait_for("a write", || candidates.receiver.epochs().first().copied());
        }
    }
    let stale = stale["epoch"].as_u64().expect("an epoch");
    assert!(
        !candidates.receiver.epochs().contains(&stale),
        "a write without a lease"
    );
}

/// Declares the tests of a sample.
macro_rules! samples {
    ($($sample:ident $leads:ident $counts:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $leads() {
            leads_and_stops_in_time(stringify!($leads), Sample::$sample).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $counts() {
            counts_from_the_request(stringify!($counts), Sample::$sample).await;
        }
    )*};
}

samples! {
    Shell the_shell_sample_leads_and_stops_in_time the_shell_sample_counts_from_the_request;
    Python the_python_sample_leads_and_stops_in_time the_python_sample_counts_from_the_request;
    Go the_go_sample_leads_and_stops_in_time the_go_sample_counts_from_the_request;
}

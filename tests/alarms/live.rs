//! A run of Prometheus against stores and candidates, with all durations of the rules divided by 30:
//! each fault fires its alert and no other one, and an installation without faults fires none.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::json;
use tenure_tests::data_dir::incompressible;
use tenure_tests::needs::SmallDisk;
use tenure_tests::wait_for;
use tokio::runtime::Runtime;

use crate::dashboard::expressions;
use crate::has_prometheus;
use crate::installation::Installation;
use crate::prometheus::Prometheus;
use crate::rules::{alerts, faster_rules, metrics_of};

/// How much faster than in an installation windows and waiting times pass.
const FACTOR: u64 = 30;

/// How long a fault may take to fire its alert. The longest `for` is 30 s here, and the store reads
/// its leases for metrics every 10 s.
const PATIENCE: Duration = Duration::from_secs(80);

/// How long no alert may fire before the faults begin.
const QUIET: Duration = Duration::from_secs(5);

/// The duration of the long run without faults.
const LONG: Duration = Duration::from_secs(120);

const CRITICAL: &str = "critical";
const WARNING: &str = "warning";

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn each_fault_fires_its_alert_and_no_other() {
    let test = "each_fault_fires_its_alert_and_no_other";
    if !has_prometheus(test) {
        return;
    }
    let requests = Requests::new();
    let quiet = || Installation::new("quiet").with_store().with_candidates(2);
    let (mut faults, quiet) = thread::scope(|scope| {
        let quiet = scope.spawn(quiet);
        (start_faults(test), quiet.join().expect("an installation"))
    });
    let all = faults
        .iter()
        .map(|fault| &fault.installation)
        .chain([&quiet]);
    let prometheus = Prometheus::start(
        &faster_rules(FACTOR),
        &all.flat_map(Installation::scrapes).collect::<Vec<_>>(),
    );
    thread::sleep(QUIET);
    wait_for("all targets to be up", || {
        prometheus.query("up == 0").is_empty().then_some(())
    });
    assert_eq!(prometheus.fired(), BTreeSet::new(), "before the faults");

    for fault in &mut faults {
        if let Some(begin) = fault.begin.take() {
            begin(&mut fault.installation, &requests);
        }
    }
    let began = Instant::now();
    let expected: BTreeSet<_> = faults.iter().map(Fault::expected).collect();
    let mut late = expected.clone();
    while !late.is_empty() && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(500));
        for fired in prometheus.fired() {
            if late.remove(&fired) {
                eprintln!("{fired:?} after {:.0?}", began.elapsed());
            }
        }
    }
    assert_eq!(prometheus.fired(), expected, "{}", prometheus.log());

    assert_annotations_are_complete(&prometheus);
    assert_every_panel_has_series(&prometheus);
    assert_metrics_exist(&prometheus);
}

#[test]
#[ignore = "it takes two minutes"]
fn an_hour_without_faults_fires_no_alert() {
    if !has_prometheus("an_hour_without_faults_fires_no_alert") {
        return;
    }
    let store = Installation::new("store").with_store().with_candidates(2);
    let peers = Installation::new("peers").with_peers();
    let guarded = Installation::new("access control").with_access_control();
    let all = [&store, &peers, &guarded];
    let scrapes: Vec<_> = all.into_iter().flat_map(Installation::scrapes).collect();
    let prometheus = Prometheus::start(&faster_rules(FACTOR), &scrapes);
    let requests = Requests::new();
    let began = Instant::now();
    while began.elapsed() < LONG {
        // One change of the leader in the time of 20 minutes.
        thread::sleep(Duration::from_secs(40));
        requests.break_lease(&store);
        assert_eq!(prometheus.fired(), BTreeSet::new(), "{}", prometheus.log());
    }
}

/// The texts of the alerts that fire now have all their values.
fn assert_annotations_are_complete(prometheus: &Prometheus) {
    let alerts = prometheus.alerts();
    assert!(!alerts.is_empty());
    for alert in alerts {
        for name in ["summary", "description"] {
            let text = alert["annotations"][name].as_str().expect("a text");
            let is_complete =
                !text.contains("<no value>") && !text.contains("  ") && !text.contains("error");
            assert!(is_complete, "{alert}");
        }
    }
}

fn assert_every_panel_has_series(prometheus: &Prometheus) {
    for panel in expressions() {
        let series = prometheus.query(&panel.expr);
        assert!(!series.is_empty(), "{}: {}", panel.name, panel.expr);
    }
}

/// All metrics of the rules and of the dashboard were scraped.
fn assert_metrics_exist(prometheus: &Prometheus) {
    let scraped = prometheus.metric_names();
    let is_scraped = |name: &String| {
        let endings = ["", "_bucket"];
        endings
            .iter()
            .any(|ending| scraped.contains(&format!("{name}{ending}")))
    };
    let rules = alerts().into_iter().map(|alert| alert.expr);
    let panels = expressions().into_iter().map(|panel| panel.expr);
    let mut names: BTreeSet<_> = rules
        .chain(panels)
        .flat_map(|expr| metrics_of(&expr))
        .collect();
    // No store here has an issuer of JSON web tokens.
    assert!(names.remove("tenure_key_set_timestamp_seconds"));
    // No candidate here has a fallback.
    assert!(names.remove("tenure_candidate_quorum"));
    // No store here is a server of a cluster.
    names.retain(|name| !is_scraped(name) && !name.starts_with("tenure_cluster_"));
    assert_eq!(names, BTreeSet::new(), "these metrics do not exist");
}

/// A fault, and the only alert that it fires.
struct Fault {
    installation: Installation,
    alert: &'static str,
    severity: &'static str,
    begin: Option<Begin>,
}

type Begin = Box<dyn FnOnce(&mut Installation, &Requests) + Send>;

impl Fault {
    fn new(
        installation: Installation,
        (alert, severity): (&'static str, &'static str),
        begin: impl FnOnce(&mut Installation, &Requests) + Send + 'static,
    ) -> Self {
        Self {
            installation,
            alert,
            severity,
            begin: Some(Box::new(begin)),
        }
    }

    fn expected(&self) -> [String; 3] {
        [self.installation.name, self.alert, self.severity].map(String::from)
    }
}

/// Starts an installation for each fault.
fn start_faults(test: &str) -> Vec<Fault> {
    let starts: [fn() -> Fault; 8] = [
        killed_leaders,
        killed_store,
        killed_peers,
        frozen_leader,
        broken_leases,
        wrong_access_file,
        wrong_tokens,
        short_certificate,
    ];
    let disk = SmallDisk::mount(test, 1_024);
    thread::scope(|scope| {
        let starts = starts.map(|start| scope.spawn(start));
        let full_disk = disk.map(full_disk);
        let faults = starts
            .into_iter()
            .map(|it| it.join().expect("an installation"));
        faults.chain(full_disk).collect()
    })
}

fn killed_leaders() -> Fault {
    let installation = Installation::new("killed leaders")
        .with_store()
        .with_candidates(2);
    Fault::new(
        installation,
        ("TenureNobodyLeads", CRITICAL),
        |installation, _| {
            installation.kill_candidates(&[0, 1]);
        },
    )
}

fn killed_store() -> Fault {
    let installation = Installation::new("killed store")
        .with_store()
        .with_candidates(1);
    Fault::new(installation, ("TenureDown", CRITICAL), |installation, _| {
        installation.store().process.signal(Signal::SIGKILL);
    })
}

fn killed_peers() -> Fault {
    let installation = Installation::new("killed peers").with_peers();
    Fault::new(
        installation,
        ("TenurePeersNoQuorum", CRITICAL),
        |installation, _| {
            installation.kill_candidates(&[0, 1]);
        },
    )
}

/// More than 10 s pass between the threshold of the alert and the end of the lease, because the
/// store reads its leases for metrics every 10 s only.
fn frozen_leader() -> Fault {
    let installation = Installation::new("frozen leader")
        .with_lease("40s")
        .with_store();
    let installation = installation.with_candidates(1);
    Fault::new(
        installation,
        ("TenureRenewalsLate", WARNING),
        |installation, _| {
            installation.candidates[0].process.signal(Signal::SIGSTOP);
            installation.add_candidate();
        },
    )
}

fn broken_leases() -> Fault {
    // The second candidate leads as soon as the first one stops.
    let installation = Installation::new("broken leases")
        .with_store()
        .with_candidates(2);
    Fault::new(
        installation,
        ("TenureFlapping", WARNING),
        |installation, requests| {
            requests.break_lease_again_and_again(installation);
        },
    )
}

fn wrong_access_file() -> Fault {
    let installation = Installation::new("wrong access file").with_access_control();
    Fault::new(
        installation,
        ("TenureReloadFailed", WARNING),
        |installation, _| {
            fs::write(installation.access_file(), "version = 7\n").expect("a file");
        },
    )
}

fn wrong_tokens() -> Fault {
    let installation = Installation::new("wrong tokens").with_access_control();
    Fault::new(
        installation,
        ("TenureCredentialsRefused", WARNING),
        |installation, requests| {
            requests.send_wrong_tokens(installation);
        },
    )
}

fn short_certificate() -> Fault {
    let installation = Installation::new("short certificate").with_certificate_for(10 * DAY);
    Fault::new(installation, ("TenureCertificateEnds", WARNING), |_, _| {})
}

fn full_disk(disk: SmallDisk) -> Fault {
    let installation = Installation::new("full disk")
        .with_store_on(disk)
        .with_candidates(1);
    Fault::new(
        installation,
        ("TenureDiskFull", CRITICAL),
        |installation, requests| {
            installation.fill_disk();
            requests.acquire_until_refused(installation);
        },
    )
}

/// Requests to the stores. Requests that are repeated end when this is dropped.
struct Requests {
    client: Client,
    runtime: Runtime,
}

impl Requests {
    fn new() -> Self {
        // The tokens are wrong, so no secret depends on the certificate.
        let client = Client::builder()
            .no_proxy()
            .danger_accept_invalid_certs(true);
        Self {
            client: client
                .timeout(Duration::from_secs(5))
                .build()
                .expect("a client"),
            runtime: Runtime::new().expect("a runtime"),
        }
    }

    /// A request about the election of this installation.
    fn post(&self, installation: &Installation, lease: &str, action: &str) -> RequestBuilder {
        let url = &installation.store().url;
        self.client
            .post(format!("{url}/v1/namespaces/tests/leases/{lease}/{action}"))
    }

    fn send(&self, request: RequestBuilder) -> Response {
        let answer = self.runtime.block_on(async { request.send().await });
        answer.expect("an answer")
    }

    fn break_lease(&self, installation: &Installation) {
        let request = self.post(installation, "job", "break");
        let answer = self.send(request.json(&json!({})));
        assert!(answer.status().is_success(), "{answer:?}");
    }

    fn break_lease_again_and_again(&self, installation: &Installation) {
        let request = self.post(installation, "job", "break");
        self.repeat(Duration::from_secs(2), request.json(&json!({})));
    }

    fn send_wrong_tokens(&self, installation: &Installation) {
        let url = format!("{}/v1/whoami", installation.store().url);
        let request = self.client.get(url).bearer_auth("a wrong token");
        self.repeat(Duration::from_millis(200), request);
    }

    fn repeat(&self, interval: Duration, request: RequestBuilder) {
        self.runtime.spawn(async move {
            loop {
                let _ = request
                    .try_clone()
                    .expect("a request without a stream")
                    .send()
                    .await;
                tokio::time::sleep(interval).await;
            }
        });
    }

    /// Acquires leases until the disk is full.
    fn acquire_until_refused(&self, installation: &Installation) {
        for number in 0..1_000 {
            let metadata = json!({"a": incompressible(number, 3_000)});
            let body = json!({"holder": "c", "duration_ms": 600_000, "metadata": metadata});
            let request = self.post(installation, &format!("lease-{number}"), "acquire");
            let answer = self.send(request.json(&body));
            if answer.status() == StatusCode::INSUFFICIENT_STORAGE {
                return;
            }
        }
        panic!("the disk is never full");
    }
}

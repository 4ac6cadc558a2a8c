//! Stores with their candidates, which Prometheus scrapes as one environment.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_tests::needs::SmallDisk;
use tenure_tests::ports::free_address;
use tenure_tests::process::{Process, command, run};
use tenure_tests::wait_for;

/// The election of each installation.
pub(crate) const ELECTION: &str = "tests/job";

/// A store and its candidates, or a group of peers.
pub(crate) struct Installation {
    /// The label `environment`.
    pub(crate) name: &'static str,
    pub(crate) store: Option<Store>,
    pub(crate) candidates: Vec<CandidateProcess>,
    /// The time without renewals after which a lease expires.
    lease: &'static str,
    folder: TempDir,
    /// The disk of the store, if it has one of its own.
    disk: Option<SmallDisk>,
}

/// A running store.
pub(crate) struct Store {
    pub(crate) process: Process,
    pub(crate) url: String,
    /// How Prometheus reaches the store: the scheme, the certificate and the token.
    scrape: Value,
}

/// A running `tenure run` that shows its metrics.
pub(crate) struct CandidateProcess {
    pub(crate) process: Process,
    status: SocketAddr,
}

impl Installation {
    /// A place for a store or a group, with a lease duration of 3 s.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            store: None,
            candidates: Vec::new(),
            lease: "3s",
            folder: tempfile::tempdir().expect("a folder"),
            disk: None,
        }
    }

    /// Sets the lease duration of its candidates.
    pub(crate) fn with_lease(self, lease: &'static str) -> Self {
        Self { lease, ..self }
    }

    /// Starts a store whose election is expected to have a leader.
    pub(crate) fn with_store(self) -> Self {
        let data = self.path("data");
        self.with_store_in(&data)
    }

    /// The same, with the data on a disk of its own.
    pub(crate) fn with_store_on(mut self, disk: SmallDisk) -> Self {
        let data = disk.path().join("store");
        self.disk = Some(disk);
        self.with_store_in(&data)
    }

    fn with_store_in(mut self, data: &Path) -> Self {
        let arguments = ["--data-dir", text(data)];
        self.store = Some(Store::start(&arguments, Some(ELECTION), json!({})));
        self
    }

    /// Starts a store with a certificate that ends after this time.
    pub(crate) fn with_certificate_for(mut self, time: Duration) -> Self {
        let names = ["127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("a name");
        params.not_after = (SystemTime::now() + time).into();
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let [pem, key_pem] = ["store.pem", "store.key"].map(|name| self.path(name));
        fs::write(&pem, certificate.pem()).expect("a file");
        fs::write(&key_pem, key.serialize_pem()).expect("a file");
        let arguments = [
            ["--home", "memory"],
            ["--tls-certificate", text(&pem)],
            ["--tls-key", text(&key_pem)],
        ];
        let scrape = json!({"tls_config": {"ca_file": pem}});
        self.store = Some(Store::start(arguments.as_flattened(), None, scrape));
        self
    }

    /// Starts a store with the files of `tenure init`. Prometheus has a token of its own.
    pub(crate) fn with_access_control(mut self) -> Self {
        let [dir, data, token] = ["etc", "data", "token"].map(|name| self.path(name));
        let (access, ca) = (self.access_file(), dir.join("tls/ca.pem"));
        let init = ["init", "--name", "localhost", "--name", "127.0.0.1"];
        let context = self.path("context.toml");
        for arguments in [
            &[
                &init[..],
                &["--dir", text(&dir), "--data-dir", text(&data)],
                &["--context-file", text(&context)],
            ]
            .concat()[..],
            &[
                &["token", "create", "prometheus", "--role", "metrics"][..],
                &["--expires", "90d"],
                &["--output", text(&token), "--file", text(&access)],
            ]
            .concat(),
        ] {
            let output = run(arguments);
            assert!(output.status.success(), "{arguments:?}: {output:?}");
        }
        let scrape = json!({
            "tls_config": {"ca_file": ca},
            "authorization": {"credentials_file": token},
        });
        let config = dir.join("tenure.toml");
        self.store = Some(Store::start(&["--config", text(&config)], None, scrape));
        self
    }

    /// The access file of a store with access control.
    pub(crate) fn access_file(&self) -> PathBuf {
        self.path("etc/access.toml")
    }

    /// Starts this number of candidates, and waits until one leads.
    pub(crate) fn with_candidates(mut self, count: usize) -> Self {
        for _ in 0..count {
            self.add_candidate();
        }
        self.wait_until_led();
        self
    }

    /// Starts another candidate.
    pub(crate) fn add_candidate(&mut self) {
        let url = self.store().url.clone();
        let candidate = CandidateProcess::start(self.lease, &["--server", &url]);
        self.candidates.push(candidate);
    }

    /// Starts three peers, and waits until one leads.
    pub(crate) fn with_peers(mut self) -> Self {
        let peers = [1, 2, 3].map(|node| format!("{node}=http://{}", free_address()));
        let peers = peers.join(",");
        let key = self.path("key");
        fs::write(&key, "a secret of the tests\n").expect("a key");
        for node in ["1", "2", "3"] {
            let state = self.path(&format!("state-{node}"));
            let of_group = [
                "--strategy",
                "bully",
                "--peers",
                &peers,
                "--key-file",
                text(&key),
            ];
            let own = ["--node", node, "--state-dir", text(&state)];
            let candidate = CandidateProcess::start(self.lease, &[&of_group[..], &own].concat());
            self.candidates.push(candidate);
        }
        self.wait_until_led();
        self
    }

    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().expect("a store")
    }

    /// Fills the disk of the store.
    pub(crate) fn fill_disk(&self) {
        let _ = self.disk.as_ref().expect("a disk").fill();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The position of the leader.
    pub(crate) fn leader(&self) -> usize {
        wait_for(&format!("a leader of {}", self.name), || {
            self.candidates.iter().position(CandidateProcess::leads)
        })
    }

    fn wait_until_led(&self) {
        let _ = self.leader();
    }

    /// Kills these candidates.
    pub(crate) fn kill_candidates(&self, positions: &[usize]) {
        for position in positions {
            self.candidates[*position].process.signal(Signal::SIGKILL);
        }
    }

    /// The parts of Prometheus' configuration for this installation, with the job names of the
    /// example. The names in the configuration must differ.
    pub(crate) fn scrapes(&self) -> Vec<Value> {
        let config = |job: &str, targets: Vec<&str>, more: &Value| {
            let labels = json!({"job": job, "environment": self.name});
            let mut config = json!({
                "job_name": format!("{job} {}", self.name),
                "static_configs": [{"targets": targets, "labels": labels}],
            });
            for (name, value) in more.as_object().expect("settings") {
                config[name] = value.clone();
            }
            config
        };
        let store = self.store.iter().map(|store| {
            let (scheme, address) = store.url.split_once("://").expect("a URL");
            let mut more = store.scrape.clone();
            more["scheme"] = json!(scheme);
            config("tenure", vec![address], &more)
        });
        let addresses: Vec<_> = self
            .candidates
            .iter()
            .map(|it| it.status.to_string())
            .collect();
        let targets = addresses.iter().map(String::as_str).collect();
        let candidates = config("tenure-candidates", targets, &json!({}));
        store.chain([candidates]).collect()
    }
}

impl Store {
    fn start(arguments: &[&str], expected: Option<&str>, scrape: Value) -> Self {
        let mut serve = command(&["serve", "--listen", "127.0.0.1:0"]);
        serve.args(arguments);
        if let Some(election) = expected {
            serve.env("TENURE_METRICS_EXPECTED", election);
        }
        let mut process = Process::spawn(&mut serve);
        let url = wait_for("the start of a store", || {
            let has_ended = process.has_ended();
            assert!(!has_ended, "the store has ended: {}", process.stderr());
            let stdout = process.stdout();
            let url = stdout.strip_prefix("listening on ")?.strip_suffix('\n')?;
            Some(url.to_owned())
        });
        Self {
            process,
            url,
            scrape,
        }
    }
}

impl CandidateProcess {
    fn start(lease: &str, arguments: &[&str]) -> Self {
        let mut candidate = command(&[
            "run",
            "--election",
            ELECTION,
            "--status-listen",
            "127.0.0.1:0",
        ]);
        candidate
            .args(["--lease-duration", lease])
            .args(arguments)
            // An election of a test of broken leases continues at once.
            .env("TENURE_COOL_DOWN", "100ms")
            .args(["--", "sleep", "1000"]);
        let mut process = Process::spawn(&mut candidate);
        let status = wait_for("the status listener of a candidate", || {
            let has_ended = process.has_ended();
            let log = process.stderr();
            assert!(!has_ended, "the candidate has ended: {log}");
            let line = log
                .lines()
                .find(|line| line.contains("serving the status"))?;
            let (_, address) = line.split_once("address=")?;
            address.split_whitespace().next()?.parse().ok()
        });
        Self { process, status }
    }

    /// Whether the log reports a term.
    fn leads(&self) -> bool {
        self.process.stderr().contains("leadership gained")
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

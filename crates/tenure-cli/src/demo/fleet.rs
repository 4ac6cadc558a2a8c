//! The demo's processes.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::Signal;
use tenure::config::{Origin, Peer};

use crate::cli::DemoStrategy;
use crate::processes::{self, Network, Process, start_store, this_program};

/// What the workers compete for.
pub(super) const ELECTION: &str = "demo/log-rollup";

/// A worker, known by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Worker(pub(super) u32);

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker-{}", self.0)
    }
}

/// Workers, and what they elect one of them by, in a folder of their own. All processes are killed
/// when this is dropped.
#[derive(Debug)]
pub(super) struct Fleet {
    lease_duration: Duration,
    way: Way,
    workers: BTreeMap<Worker, Process>,
    /// The last to go: the others write to it.
    folder: tempfile::TempDir,
}

/// How the workers elect one of them.
#[derive(Debug)]
pub(super) enum Way {
    /// By a lease in a store.
    Store(Process, SocketAddr),
    /// Among themselves.
    Peers(Network),
}

impl Fleet {
    /// Starts this many workers, and a store if they need one.
    pub(super) fn start(
        strategy: DemoStrategy,
        workers: u32,
        lease_duration: Duration,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("tenure-demo-").tempdir()?;
        fs::create_dir(folder.path().join("logs"))?;
        let workers: Vec<Worker> = (1..=workers).map(Worker).collect();
        let mut fleet = Self {
            lease_duration,
            way: match strategy {
                DemoStrategy::Lease => {
                    let listen = (Ipv4Addr::LOCALHOST, 0).into();
                    let spawn = |mut store: Command| Ok(store.spawn()?);
                    let (store, address) = start_store(folder.path(), listen, spawn)?;
                    Way::Store(store, address)
                }
                DemoStrategy::Bully => {
                    let numbers: Vec<u32> = workers.iter().map(|worker| worker.0).collect();
                    Way::Peers(Network::start(&numbers)?)
                }
            },
            workers: BTreeMap::new(),
            folder,
        };
        for worker in workers {
            fleet.start_worker(worker)?;
        }
        Ok(fleet)
    }

    /// Starts a worker (anew).
    pub(super) fn start_worker(&mut self, worker: Worker) -> anyhow::Result<()> {
        let log = self.folder.path().join(format!("{worker}.log"));
        let log = File::options().create(true).append(true).open(log)?;
        let settings = self.settings(worker).into_iter();
        let process = this_program(&["demo-worker"])
            .envs(settings.map(|(key, value)| {
                let name = key.replace('.', "_").to_uppercase();
                (format!("TENURE_{name}"), value)
            }))
            .arg("--logs")
            .arg(self.logs())
            .arg("--database")
            .arg(self.database())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map(Process)
            .with_context(|| format!("can't start {worker}"))?;
        self.workers.insert(worker, process);
        Ok(())
    }

    /// What a worker is told: this is all that differs from one way to elect to another.
    fn settings(&self, worker: Worker) -> Vec<(&'static str, String)> {
        let lease = self.lease_duration.as_millis();
        let mut settings = vec![
            ("election", ELECTION.into()),
            ("candidate", worker.0.to_string()),
            ("lease_duration", format!("{lease}ms")),
        ];
        match &self.way {
            Way::Store(_, address) => settings.push(("servers", format!("http://{address}"))),
            Way::Peers(network) => {
                let state = self.folder.path().join(format!("{worker}-state"));
                settings.extend([
                    ("strategy", "bully".into()),
                    ("bully.node", worker.0.to_string()),
                    (
                        "bully.peers",
                        network.peers_of(worker.0, |_| Peer::DEFAULT_PRIORITY),
                    ),
                    ("bully.listen", network.listens(worker.0).to_string()),
                    ("bully.state_dir", state.to_string_lossy().into_owned()),
                    // Long for such a lease: all the members share one machine.
                    ("bully.message_lifetime", format!("{}ms", lease / 8)),
                ]);
            }
        }
        settings
    }

    /// The longest time without a leader after one that could not say good-bye.
    pub(super) fn worst_without_leader(&self) -> anyhow::Result<Duration> {
        let mut settings = tenure::__cli::settings();
        for (key, value) in self.settings(Worker(1)) {
            settings.set(key, [value], Origin::Environment(key.into()));
        }
        let config = tenure::__cli::from_settings(&settings)?;
        processes::worst_without_leader(&config)
    }

    pub(super) const fn way(&self) -> &Way {
        &self.way
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn database(&self) -> PathBuf {
        self.folder.path().join("summary.db")
    }

    /// All that were started and not waited for.
    pub(super) fn workers(&self) -> impl Iterator<Item = Worker> {
        self.workers.keys().copied()
    }

    /// Signals a worker.
    pub(super) fn signal(&self, worker: Worker, signal: Signal) -> anyhow::Result<()> {
        let process = self.workers.get(&worker);
        process
            .with_context(|| format!("no {worker}"))?
            .signal(signal)
    }

    /// More lines for the workers to count.
    pub(super) fn write_logs(&self, tick: u64) -> anyhow::Result<()> {
        let level = ["INFO", "INFO", "WARN", "INFO", "ERROR"][(tick % 5) as usize];
        let path = self.logs().join(format!("service-{}.log", tick % 3));
        let mut file = File::options().create(true).append(true).open(path)?;
        Ok(writeln!(file, "{level} request {tick}")?)
    }

    /// Stops the workers, then the store, and fails if one does not stop.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        for process in self.workers.values() {
            process.signal(Signal::SIGTERM)?;
        }
        for (worker, process) in &mut self.workers {
            process.ends_well(&worker.to_string())?;
        }
        if let Way::Store(store, _) = &mut self.way {
            store.signal(Signal::SIGTERM)?;
            store.ends_well("the store")?;
        }
        Ok(())
    }

    /// Waits for the end of a worker that was asked to stop.
    pub(super) fn wait_for_end(&mut self, worker: Worker) -> anyhow::Result<()> {
        let process = self.workers.remove(&worker);
        let mut process = process.with_context(|| format!("no {worker}"))?;
        process.ends_well(&worker.to_string())
    }

    fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }
}

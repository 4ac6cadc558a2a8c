//! The processes of the demo.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use nix::sys::signal::Signal;
use tenure::__cli::{Scope, Settings};
use tenure::config::{Origin, Peer};

use crate::processes::{self, Network, Process, in_background, start_store, this_program};

/// The election that the workers compete in.
pub(super) const ELECTION: &str = "demo/log-rollup";

/// How the workers elect a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DemoStrategy {
    /// By a lease in a store
    Lease,
    /// Among peers, without a store
    Bully,
}

/// The number of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Worker(pub(super) u32);

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker-{}", self.0)
    }
}

/// Workers, and the store or the network that they need, in a temporary directory. A drop kills all
/// processes.
#[derive(Debug)]
pub(super) struct Fleet {
    lease_duration: Duration,
    backend: Backend,
    workers: BTreeMap<Worker, Process>,
    /// Dropped last, because the others write to it.
    folder: tempfile::TempDir,
}

/// The means by which the workers elect a leader.
#[derive(Debug)]
pub(super) enum Backend {
    Store(Process, SocketAddr),
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
            backend: match strategy {
                DemoStrategy::Lease => {
                    let listen = (Ipv4Addr::LOCALHOST, 0).into();
                    let spawn = |mut store: Command| Ok(store.spawn()?);
                    let (store, address) = start_store(folder.path(), listen, spawn)?;
                    Backend::Store(store, address)
                }
                DemoStrategy::Bully => {
                    let numbers: Vec<u32> = workers.iter().map(|worker| worker.0).collect();
                    Backend::Peers(Network::start(&numbers)?)
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

    /// Starts or restarts a worker.
    pub(super) fn start_worker(&mut self, worker: Worker) -> anyhow::Result<()> {
        let log = self.folder.path().join(format!("{worker}.log"));
        let settings = self.settings(worker).into_iter();
        let mut command = this_program(&["demo-worker"]);
        command
            .envs(settings.map(|(key, value)| {
                let name = key.replace('.', "_").to_uppercase();
                (format!("TENURE_{name}"), value)
            }))
            .arg("--logs")
            .arg(self.logs())
            .arg("--database")
            .arg(self.database());
        in_background(&mut command, &log)?;
        let process = command.spawn().map(Process);
        let process = process.with_context(|| format!("can't start {worker}"))?;
        self.workers.insert(worker, process);
        Ok(())
    }

    /// The settings of a worker. Nothing else differs between the strategies.
    fn settings(&self, worker: Worker) -> Vec<(&'static str, String)> {
        let lease = self.lease_duration.as_millis();
        let mut settings = vec![
            ("election", ELECTION.into()),
            ("candidate", worker.0.to_string()),
            ("lease_duration", format!("{lease}ms")),
        ];
        match &self.backend {
            Backend::Store(_, address) => settings.push(("servers", format!("http://{address}"))),
            Backend::Peers(network) => {
                let state = self.folder.path().join(format!("{worker}-state"));
                settings.extend([
                    ("strategy", "bully".into()),
                    ("bully.node", worker.0.to_string()),
                    (
                        "bully.peers",
                        network.peers_of(worker.0, |_| Peer::DEFAULT_PRIORITY),
                    ),
                    ("bully.listen", network.listen_address(worker.0).to_string()),
                    ("bully.state_dir", state.to_string_lossy().into_owned()),
                    // Long for such a lease, because all members share one machine.
                    ("bully.message_lifetime", format!("{}ms", lease / 8)),
                ]);
            }
        }
        settings
    }

    /// The longest time without a leader after a leader that could not release its lease.
    pub(super) fn worst_without_leader(&self) -> anyhow::Result<Duration> {
        let mut settings = Settings::new(Scope::Candidate);
        for (key, value) in self.settings(Worker(1)) {
            settings.set(key, [value], Origin::Environment(key.into()));
        }
        let config = tenure::__cli::from_settings(&settings)?;
        processes::worst_without_leader(&config)
    }

    pub(super) const fn backend(&self) -> &Backend {
        &self.backend
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn database(&self) -> PathBuf {
        self.folder.path().join("summary.db")
    }

    /// All workers that were started and not waited for.
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

    /// Writes log lines for the workers to count.
    pub(super) fn write_logs(&self, tick: u64) -> anyhow::Result<()> {
        let level = ["INFO", "INFO", "WARN", "INFO", "ERROR"][(tick % 5) as usize];
        let path = self.logs().join(format!("service-{}.log", tick % 3));
        let mut file = File::options().create(true).append(true).open(path)?;
        Ok(writeln!(file, "{level} request {tick}")?)
    }

    /// Stops the workers, then the store; fails if a process does not stop.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        for process in self.workers.values() {
            process.signal(Signal::SIGTERM)?;
        }
        for (worker, process) in &mut self.workers {
            process.wait_for_success(&worker.to_string())?;
        }
        if let Backend::Store(store, _) = &mut self.backend {
            store.signal(Signal::SIGTERM)?;
            store.wait_for_success("the store")?;
        }
        Ok(())
    }

    /// Waits for the end of a worker that was asked to stop.
    pub(super) fn wait_for_end(&mut self, worker: Worker) -> anyhow::Result<()> {
        let process = self.workers.remove(&worker);
        let mut process = process.with_context(|| format!("no {worker}"))?;
        process.wait_for_success(&worker.to_string())
    }

    fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }
}

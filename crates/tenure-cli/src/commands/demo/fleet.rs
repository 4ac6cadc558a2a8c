//! The processes of the demo.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use nix::sys::signal::Signal;
use tenure::__cli::{Scope, Settings};
use tenure::config::{Origin, Peer};

use crate::processes::{self, ProcessSet, STORE, this_program};

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

/// Workers, and the store that they need with [`DemoStrategy::Lease`].
#[derive(Debug)]
pub(super) struct Fleet {
    strategy: DemoStrategy,
    lease_duration: Duration,
    pub(super) processes: ProcessSet,
}

impl Fleet {
    /// Starts this many workers, and a store if they need one.
    pub(super) fn start(
        strategy: DemoStrategy,
        workers: u32,
        lease_duration: Duration,
    ) -> anyhow::Result<Self> {
        let has_store = strategy == DemoStrategy::Lease;
        let mut fleet = Self {
            strategy,
            lease_duration,
            processes: ProcessSet::new("tenure-demo-", "worker", workers, has_store)?,
        };
        fs::create_dir(fleet.logs())?;
        for worker in 1..=workers {
            fleet.start_worker(Worker(worker))?;
        }
        Ok(fleet)
    }

    /// Starts or restarts a worker.
    pub(super) fn start_worker(&mut self, worker: Worker) -> anyhow::Result<()> {
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
        self.processes.start(worker.0, command).map(drop)
    }

    /// The settings of a worker. Nothing else differs between the strategies.
    fn settings(&self, worker: Worker) -> Vec<(&'static str, String)> {
        let lease = self.lease_duration.as_millis();
        let network = &self.processes.network;
        let mut settings = vec![
            ("election", ELECTION.into()),
            ("candidate", worker.0.to_string()),
            ("lease_duration", format!("{lease}ms")),
        ];
        match self.store_url() {
            Some(url) => settings.push(("servers", url)),
            None => {
                let state = self.processes.folder().join(format!("{worker}-state"));
                let peers = network.peers_of(worker.0, |_| Peer::DEFAULT_PRIORITY);
                settings.extend([
                    ("strategy", "bully".into()),
                    ("bully.node", worker.0.to_string()),
                    ("bully.peers", peers),
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

    /// The address of the store, if there is one.
    pub(super) fn store_url(&self) -> Option<String> {
        let has_store = self.strategy == DemoStrategy::Lease;
        let address = || self.processes.network.listen_address(STORE);
        has_store.then(|| format!("http://{}", address()))
    }

    pub(super) fn database(&self) -> PathBuf {
        self.processes.folder().join("summary.db")
    }

    /// All workers that were started and not waited for.
    pub(super) fn workers(&self) -> Vec<Worker> {
        let numbers = self.processes.numbers().into_iter();
        numbers
            .filter(|&number| number != STORE)
            .map(Worker)
            .collect()
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
        let workers = self.workers();
        for worker in &workers {
            self.processes.signal(worker.0, Signal::SIGTERM)?;
        }
        for worker in &workers {
            self.processes.wait_for_end(worker.0)?;
        }
        if self.strategy == DemoStrategy::Lease {
            self.processes.signal(STORE, Signal::SIGTERM)?;
            self.processes.wait_for_end(STORE)?;
        }
        Ok(())
    }

    fn logs(&self) -> PathBuf {
        self.processes.folder().join("logs")
    }
}

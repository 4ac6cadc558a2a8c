//! The processes of the demo.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::settings::CANDIDATE;
use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tenure_config::{Origin, Settings};

/// The election that the workers compete in.
pub(super) const ELECTION: &str = "demo/log-rollup";

/// The number of the store among the processes; workers have greater ones.
const STORE: u32 = 0;

/// How long a process may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

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

/// Workers, and the store that they need with [`DemoStrategy::Lease`]. A drop kills them.
#[derive(Debug)]
pub(super) struct Fleet {
    strategy: DemoStrategy,
    lease_duration: Duration,
    /// The addresses that the processes listen on, by their numbers.
    addresses: Vec<SocketAddr>,
    processes: BTreeMap<u32, Process>,
    /// Dropped last, because the processes write to it.
    pub(super) folder: TempDir,
}

/// A child process; a drop kills it.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Fleet {
    /// Starts this many workers, and a store if they need one.
    pub(super) fn start(
        strategy: DemoStrategy,
        workers: u32,
        lease_duration: Duration,
    ) -> anyhow::Result<Self> {
        let mut fleet = Self {
            strategy,
            lease_duration,
            addresses: (STORE..=workers)
                .map(free_address)
                .collect::<anyhow::Result<_>>()?,
            processes: BTreeMap::new(),
            folder: tempfile::Builder::new().prefix("tenure-demo-").tempdir()?,
        };
        if strategy == DemoStrategy::Lease {
            fleet.start_store()?;
        }
        fs::create_dir(fleet.logs())?;
        for worker in 1..=workers {
            fleet.start_worker(Worker(worker))?;
        }
        Ok(fleet)
    }

    fn start_store(&mut self) -> anyhow::Result<()> {
        let mut store = this_program("serve");
        store
            .arg("--listen")
            .arg(self.addresses[STORE as usize].to_string())
            .arg("--data-dir")
            .arg(self.folder.path().join("store"))
            .stdout(Stdio::piped());
        let stdout = self.spawn(STORE, store)?.0.stdout.take();
        let mut line = String::new();
        BufReader::new(stdout.context("the store has no stdout")?).read_line(&mut line)?;
        if !line.starts_with("listening on ") {
            let log = fs::read_to_string(self.log(STORE)).unwrap_or_default();
            bail!("the store did not start: {line}{log}");
        }
        Ok(())
    }

    /// Starts or restarts a worker.
    pub(super) fn start_worker(&mut self, worker: Worker) -> anyhow::Result<()> {
        let settings = self.settings(worker).into_iter();
        let mut command = this_program("demo-worker");
        command
            .envs(settings.map(|(key, value)| {
                let name = key.replace('.', "_").to_uppercase();
                (format!("TENURE_{name}"), value)
            }))
            .arg("--logs")
            .arg(self.logs())
            .arg("--database")
            .arg(self.database());
        self.spawn(worker.0, command).map(drop)
    }

    /// Starts a process in a process group of its own, with its stderr in a log file. An earlier
    /// process with this number is killed.
    fn spawn(&mut self, number: u32, mut command: Command) -> anyhow::Result<&mut Process> {
        self.processes.remove(&number);
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log(number))?;
        let process = command
            .process_group(0)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn();
        let process = process.with_context(|| format!("can't start {}", name(number)))?;
        Ok(self.processes.entry(number).or_insert(Process(process)))
    }

    /// The settings of a worker. Nothing else differs between the strategies.
    fn settings(&self, worker: Worker) -> Vec<(&'static str, String)> {
        let lease = self.lease_duration.as_millis();
        let mut settings = vec![
            ("election", ELECTION.into()),
            ("candidate", worker.0.to_string()),
            ("lease_duration", format!("{lease}ms")),
        ];
        match self.store_url() {
            Some(url) => settings.push(("servers", url)),
            None => {
                let state = self.folder.path().join(format!("{worker}-state"));
                let peers = self.addresses.iter().enumerate().skip(1);
                let peers = peers.map(|(number, address)| format!("{number}=http://{address}"));
                let peers: Vec<String> = peers.collect();
                let listen = self.addresses[worker.0 as usize];
                settings.extend([
                    ("strategy", "bully".into()),
                    ("bully.node", worker.0.to_string()),
                    ("bully.peers", peers.join(",")),
                    ("bully.listen", listen.to_string()),
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
        let mut settings = Settings::new(CANDIDATE);
        for (key, value) in self.settings(Worker(1)) {
            settings.set(key, [value], Origin::Environment(key.into()));
        }
        let config = tenure::Config::from_settings(&settings)?;
        Ok(match config.election_plan()? {
            Some(plan) => plan.bounds.without_leader,
            None => config.timings().worst_without_leader(),
        })
    }

    /// The address of the store, if there is one.
    pub(super) fn store_url(&self) -> Option<String> {
        let has_store = self.strategy == DemoStrategy::Lease;
        has_store.then(|| format!("http://{}", self.addresses[STORE as usize]))
    }

    pub(super) fn database(&self) -> PathBuf {
        self.folder.path().join("summary.db")
    }

    /// Writes log lines for the workers to count.
    pub(super) fn write_logs(&self, tick: u64) -> anyhow::Result<()> {
        let level = ["INFO", "INFO", "WARN", "INFO", "ERROR"][(tick % 5) as usize];
        let path = self.logs().join(format!("service-{}.log", tick % 3));
        let mut file = File::options().create(true).append(true).open(path)?;
        Ok(writeln!(file, "{level} request {tick}")?)
    }

    /// Signals a process that has not been waited for.
    pub(super) fn signal(&self, number: u32, signal: Signal) -> anyhow::Result<()> {
        let process = self.processes.get(&number);
        let process = process.with_context(|| format!("no {}", name(number)))?;
        let pid = Pid::from_raw(process.0.id().cast_signed());
        kill(pid, signal).with_context(|| format!("can't send {signal} to {pid}"))
    }

    /// Waits for the end of a process that was asked to stop. Fails if its exit code is not 0.
    pub(super) fn wait_for_end(&mut self, number: u32) -> anyhow::Result<()> {
        let name = name(number);
        let process = self.processes.remove(&number);
        let mut process = process.with_context(|| format!("no {name}"))?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            if let Some(status) = process.0.try_wait()? {
                ensure!(status.success(), "{name} ended with {status}");
                return Ok(());
            }
            sleep(Duration::from_millis(5));
        }
        bail!("{name} did not stop within {STOP_TIMEOUT:?}")
    }

    /// Stops the workers, then the store; fails if a process does not stop.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        let numbers = self.processes.keys().copied();
        let (store, workers): (Vec<u32>, Vec<u32>) = numbers.partition(|it| *it == STORE);
        for numbers in [workers, store] {
            for &number in &numbers {
                self.signal(number, Signal::SIGTERM)?;
            }
            for number in numbers {
                self.wait_for_end(number)?;
            }
        }
        Ok(())
    }

    fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    fn log(&self, number: u32) -> PathBuf {
        self.folder.path().join(format!("{}.log", name(number)))
    }
}

fn name(number: u32) -> String {
    match number {
        STORE => "store".into(),
        worker => Worker(worker).to_string(),
    }
}

/// A command that starts a command of this program, without the user's settings in the environment.
fn this_program(command: &str) -> Command {
    let mut program = Command::new("/proc/self/exe");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            program.env_remove(name);
        }
    }
    program
        .args([command, "--parent", &std::process::id().to_string()])
        .stdout(Stdio::null());
    program
}

/// A free address, which stays free while its process restarts: outgoing connections use another IP
/// address.
fn free_address(number: u32) -> anyhow::Result<SocketAddr> {
    let [.., last] = (number + 1).to_be_bytes();
    let address = Ipv4Addr::new(127, 0, 0, last);
    let listener = TcpListener::bind((address, 0));
    let listener = listener.with_context(|| format!("can't listen on {address}"))?;
    Ok(listener.local_addr()?)
}

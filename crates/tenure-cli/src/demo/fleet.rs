//! The demo's processes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A store and workers, in a folder of their own. They are killed when this is dropped.
#[derive(Debug)]
pub(super) struct Fleet {
    lease_duration: Duration,
    store: Process,
    address: SocketAddr,
    workers: Vec<(String, Process)>,
    /// The last to go: the others write to it.
    folder: tempfile::TempDir,
}

/// A process that does not outlive its owner.
#[derive(Debug)]
struct Process(Child);

impl Process {
    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.0.id().cast_signed());
        kill(pid, signal).with_context(|| format!("can't send {signal} to {pid}"))
    }

    /// Waits for the end that was asked for.
    fn ends_well(&mut self, name: &str) -> anyhow::Result<()> {
        let patience = Instant::now() + STOP_PATIENCE;
        while Instant::now() < patience {
            if let Some(status) = self.0.try_wait()? {
                anyhow::ensure!(status.success(), "{name} ended with {status}");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("{name} has not stopped within {STOP_PATIENCE:?}")
    }
}

/// How long a process may take to stop when it is asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(15);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Fleet {
    /// Starts a store and this many workers.
    pub(super) fn start(workers: u32, lease_duration: Duration) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("tenure-demo-").tempdir()?;
        fs::create_dir(folder.path().join("logs"))?;
        let parent = std::process::id().to_string();
        let mut store = Command::new("/proc/self/exe")
            .args(["serve", "--listen", "127.0.0.1:0", "--parent", &parent])
            .arg("--data-dir")
            .arg(folder.path().join("store"))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.path().join("store.log"))?)
            .spawn()
            .map(Process)
            .context("can't start the store")?;
        let mut line = String::new();
        let stdout = store.0.stdout.take().context("the store has no stdout")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let Some(address) = line
            .trim_end()
            .strip_prefix("listening on http://")
            .and_then(|text| text.parse().ok())
        else {
            let log = fs::read_to_string(folder.path().join("store.log")).unwrap_or_default();
            bail!("the store did not start: {line}{log}");
        };
        let mut fleet = Self {
            lease_duration,
            store,
            address,
            workers: Vec::new(),
            folder,
        };
        for number in 1..=workers {
            fleet.start_worker(format!("worker-{number}"))?;
        }
        Ok(fleet)
    }

    /// Starts a worker of this name (anew).
    pub(super) fn start_worker(&mut self, name: String) -> anyhow::Result<()> {
        let log = self.folder.path().join(format!("{name}.log"));
        let log = File::options().create(true).append(true).open(log)?;
        let process = Command::new("/proc/self/exe")
            .args(["demo-worker", "--candidate", &name])
            .args(["--parent", &std::process::id().to_string()])
            .args(["--store", &self.address.to_string()])
            .args([
                "--lease-duration",
                &format!("{}ms", self.lease_duration.as_millis()),
            ])
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
            .with_context(|| format!("can't start {name}"))?;
        self.workers.retain(|(worker, _)| *worker != name);
        self.workers.push((name, process));
        Ok(())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn database(&self) -> PathBuf {
        self.folder.path().join("summary.db")
    }

    /// Signals a worker.
    pub(super) fn signal(&self, name: &str, signal: Signal) -> anyhow::Result<()> {
        let found = self.workers.iter().find(|(worker, _)| worker == name);
        found
            .with_context(|| format!("no worker {name}"))?
            .1
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
        for (_, process) in &self.workers {
            process.signal(Signal::SIGTERM)?;
        }
        for (name, process) in &mut self.workers {
            process.ends_well(name)?;
        }
        self.store.signal(Signal::SIGTERM)?;
        self.store.ends_well("the store")
    }

    /// Waits for the end of a worker that was asked to stop.
    pub(super) fn wait_for_end(&mut self, name: &str) -> anyhow::Result<()> {
        let found = self.workers.iter().position(|(worker, _)| worker == name);
        let (name, mut process) = self.workers.remove(found.context("no such worker")?);
        process.ends_well(&name)
    }

    fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }
}

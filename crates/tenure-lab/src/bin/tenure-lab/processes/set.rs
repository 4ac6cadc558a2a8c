//! The processes of one election: candidates, and a store if they need one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::network::Network;
use super::process::Process;

/// The number of the store among the processes; candidates have greater ones.
pub(crate) const STORE: u32 = 0;

/// Processes in a temporary directory, and the network between them. A drop kills them.
#[derive(Debug)]
pub(crate) struct ProcessSet {
    pub(crate) network: Network,
    /// The program `tenure`.
    tenure: PathBuf,
    /// By number.
    processes: BTreeMap<u32, Process>,
    /// Dropped last, because the others write to it.
    folder: TempDir,
}

impl ProcessSet {
    /// A network for this number of candidates, and for a store if `has_store`. The store runs; no
    /// candidate runs yet.
    pub(crate) fn new(tenure: &Path, candidates: u32, has_store: bool) -> anyhow::Result<Self> {
        let least = if has_store { STORE } else { 1 };
        let numbers: Vec<u32> = (least..=candidates).collect();
        let mut set = Self {
            folder: tempfile::Builder::new()
                .prefix("tenure-compare-")
                .tempdir()?,
            network: Network::start(&numbers)?,
            tenure: tenure.to_owned(),
            processes: BTreeMap::new(),
        };
        if has_store {
            set.start_store()?;
        }
        Ok(set)
    }

    /// The directory of all processes.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// All processes that were started and not removed since.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.processes.keys().copied().collect()
    }

    fn log(&self, number: u32) -> PathBuf {
        self.folder().join(format!("{}.log", name(number)))
    }

    /// The log of a process so far.
    pub(crate) fn read_log(&self, number: u32) -> String {
        fs::read_to_string(self.log(number)).unwrap_or_default()
    }

    /// Starts a process in the background: in a process group of its own, with its stderr in a log
    /// file. An earlier process with this number is killed.
    pub(crate) fn start(
        &mut self,
        number: u32,
        mut command: Command,
    ) -> anyhow::Result<&mut Process> {
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

    /// A command that starts `tenure` with these arguments, without the user's settings in the
    /// environment.
    pub(crate) fn tenure(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.tenure);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TENURE_") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .args(["--parent", &std::process::id().to_string()])
            .stdout(Stdio::null());
        command
    }

    /// Starts the store, with its data in the directory.
    pub(crate) fn start_store(&mut self) -> anyhow::Result<()> {
        let mut store = self.tenure(&["serve"]);
        store
            .arg("--listen")
            .arg(self.network.listen_address(STORE).to_string())
            .arg("--data-dir")
            .arg(self.folder().join("store"))
            .stdout(Stdio::piped());
        let stdout = self.start(STORE, store)?.0.stdout.take();
        let mut line = String::new();
        BufReader::new(stdout.context("the store has no stdout")?).read_line(&mut line)?;
        if !line.starts_with("listening on ") {
            bail!("the store did not start: {line}{}", self.read_log(STORE));
        }
        Ok(())
    }

    /// Whether a process runs.
    pub(crate) fn is_running(&mut self, number: u32) -> anyhow::Result<bool> {
        let process = self.processes.get_mut(&number);
        process.map_or(Ok(false), |it| Ok(it.0.try_wait()?.is_none()))
    }

    /// The process id, unless the process was removed.
    pub(crate) fn pid(&self, number: u32) -> Option<Pid> {
        let process = self.processes.get(&number)?;
        Some(Pid::from_raw(process.0.id().cast_signed()))
    }

    /// Kills and removes a process. Returns whether there was one.
    pub(crate) fn kill(&mut self, number: u32) -> bool {
        self.processes.remove(&number).is_some()
    }

    /// Signals a process that has not been removed.
    pub(crate) fn signal(&self, number: u32, signal: Signal) -> anyhow::Result<()> {
        let pid = self.pid(number);
        let pid = pid.with_context(|| format!("no {}", name(number)))?;
        kill(pid, signal).with_context(|| format!("can't send {signal} to {pid}"))
    }

    /// All processes, which are removed.
    pub(crate) fn take_all(&mut self) -> Vec<Process> {
        std::mem::take(&mut self.processes).into_values().collect()
    }
}

fn name(number: u32) -> String {
    match number {
        STORE => "store".into(),
        number => format!("candidate-{number}"),
    }
}

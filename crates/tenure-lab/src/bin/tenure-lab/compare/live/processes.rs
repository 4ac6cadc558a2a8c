//! The processes of one run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tenure_sim::sim::{HistoryEventKind, Time};

use super::contestant::LiveContestant;
use super::descendants::{descendants, kill_all};
use super::network::{Network, STORE};
use super::now;
use super::receiver::Receiver;

/// Candidates, and a store if they need one, with the network between them. A drop kills all
/// descendants of this process, including those that other processes have left behind.
#[derive(Debug)]
pub(super) struct LiveProcesses<'a> {
    contestant: &'a LiveContestant,
    /// The program `tenure`.
    tenure: &'a Path,
    /// The receiver that leaders write to.
    pub(super) receiver: Receiver,
    pub(super) network: Network,
    /// The processes that were started and not removed since, by number.
    processes: BTreeMap<u32, Child>,
    frozen: BTreeSet<u32>,
    /// Events of processes with their times.
    pub(super) seen: Vec<(Duration, u32, HistoryEventKind)>,
    /// All candidates, best first.
    best_first: Vec<u32>,
    /// The number of processes that have ended.
    ended: &'a mut usize,
    /// Dropped last, because the processes write to it.
    folder: TempDir,
}

impl<'a> LiveProcesses<'a> {
    /// Starts the store. No candidate runs yet.
    pub(super) fn new(
        contestant: &'a LiveContestant,
        (tenure, candidates): (&'a Path, u32),
        ended: &'a mut usize,
    ) -> anyhow::Result<Self> {
        let first = if contestant.needs_store { STORE } else { 1 };
        let numbers: Vec<u32> = (first..=candidates).collect();
        let mut processes = Self {
            contestant,
            tenure,
            receiver: Receiver::start()?,
            network: Network::start(&numbers)?,
            processes: BTreeMap::new(),
            frozen: BTreeSet::new(),
            seen: Vec::new(),
            best_first: contestant.best_first(candidates),
            ended,
            folder: tempfile::Builder::new()
                .prefix("tenure-compare-")
                .tempdir()?,
        };
        if contestant.needs_store {
            processes.start(STORE)?;
        }
        Ok(processes)
    }

    /// Starts a process, if it does not run.
    pub(super) fn start(&mut self, number: u32) -> anyhow::Result<()> {
        if self.is_running(number)? {
            return Ok(());
        }
        self.kill(number);
        let folder = self.folder.path();
        let mut command;
        if number == STORE {
            command = self.tenure("serve");
            command
                .arg("--listen")
                .arg(self.network.listen_address(STORE).to_string())
                .arg("--data-dir")
                .arg(folder.join("store"))
                .stdout(Stdio::piped());
        } else {
            let config = self.contestant.write(folder, number, &self.network)?;
            command = self.tenure("run");
            command
                .arg("--config")
                .arg(config)
                .arg("--")
                .arg(std::env::current_exe()?)
                .args(["compare-worker", "--receiver"])
                .arg(self.receiver.address.to_string())
                .current_dir(folder);
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log(number))?;
        // In a process group of its own, so that the terminal does not signal it.
        let process = command
            .process_group(0)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn();
        let mut process = process.with_context(|| format!("can't start process {number}"))?;
        let stdout = process.stdout.take();
        self.processes.insert(number, process);
        if let Some(stdout) = stdout {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line)?;
            if !line.starts_with("listening on ") {
                let log = fs::read_to_string(self.log(number)).unwrap_or_default();
                bail!("the store did not start: {line}{log}");
            }
        }
        self.record(number, HistoryEventKind::Started);
        Ok(())
    }

    /// A command of `tenure`, without the user's settings in the environment.
    fn tenure(&self, name: &str) -> Command {
        let mut command = Command::new(self.tenure);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TENURE_") {
                command.env_remove(name);
            }
        }
        command
            .args([name, "--parent", &std::process::id().to_string()])
            .stdout(Stdio::null());
        command
    }

    fn log(&self, number: u32) -> PathBuf {
        self.folder.path().join(format!("{number}.log"))
    }

    /// Whether a process runs.
    pub(super) fn is_running(&mut self, number: u32) -> anyhow::Result<bool> {
        let process = self.processes.get_mut(&number);
        process.map_or(Ok(false), |it| Ok(it.try_wait()?.is_none()))
    }

    /// The numbers of the processes that have ended and were not removed.
    fn all_ended(&mut self) -> anyhow::Result<Vec<u32>> {
        let mut ended = Vec::new();
        for (&number, process) in &mut self.processes {
            if process.try_wait()?.is_some() {
                ended.push(number);
            }
        }
        Ok(ended)
    }

    /// Fails with the last log line of a process that has ended by itself.
    pub(super) fn ensure_all_run(&mut self) -> anyhow::Result<()> {
        if let Some(&number) = self.all_ended()?.first() {
            let log = fs::read_to_string(self.log(number)).unwrap_or_default();
            let last = log.lines().last().unwrap_or("its log is empty");
            bail!(
                "{}: process {number} has ended: {last}",
                self.contestant.name
            );
        }
        Ok(())
    }

    /// The candidate with this rank: 1 is the best.
    pub(super) fn of_rank(&self, rank: u32) -> Option<u32> {
        let index = (rank as usize).checked_sub(1)?;
        self.best_first.get(index).copied()
    }

    /// The best candidate that runs, except this one.
    pub(super) fn best_but(&mut self, leader: Option<u32>) -> anyhow::Result<Option<u32>> {
        for number in self.best_first.clone() {
            let counts = Some(number) != leader && !self.frozen.contains(&number);
            if counts && self.is_running(number)? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Sends SIGKILL to `tenure run` alone. Its watchdogs must kill the command.
    pub(super) fn kill(&mut self, number: u32) {
        if let Some(mut process) = self.processes.remove(&number) {
            let _ = process.kill();
            let _ = process.wait();
            self.frozen.remove(&number);
            self.record(number, HistoryEventKind::Stopped);
        }
    }

    /// Sends SIGTERM to `tenure run` alone.
    pub(super) fn stop(&mut self, number: u32) -> anyhow::Result<()> {
        self.signal(number, Signal::SIGTERM).map(drop)
    }

    /// Removes the stopped processes that have ended meanwhile.
    pub(super) fn collect(&mut self) -> anyhow::Result<()> {
        for number in self.all_ended()? {
            self.kill(number);
        }
        Ok(())
    }

    /// Freezes a process with its watchdogs and its command, as if its machine were suspended.
    pub(super) fn freeze(&mut self, number: u32) -> anyhow::Result<()> {
        if self.frozen.insert(number) {
            self.signal_all(number, Signal::SIGSTOP)?;
            self.record(number, HistoryEventKind::Paused(Time::NEVER));
        }
        Ok(())
    }

    /// Lets a frozen process and its descendants continue.
    pub(super) fn thaw(&mut self, number: u32) -> anyhow::Result<()> {
        if self.frozen.remove(&number) {
            self.signal_all(number, Signal::SIGCONT)?;
            self.record(number, HistoryEventKind::Resumed);
        }
        Ok(())
    }

    fn signal_all(&mut self, number: u32, signal: Signal) -> anyhow::Result<()> {
        let pid = self.signal(number, signal)?;
        for process in pid.into_iter().flat_map(descendants) {
            // It may have ended meanwhile.
            let _ = kill(process, signal);
        }
        Ok(())
    }

    /// Signals a process that runs, and returns its id.
    fn signal(&mut self, number: u32, signal: Signal) -> anyhow::Result<Option<Pid>> {
        let Some(process) = self.processes.get_mut(&number) else {
            return Ok(None);
        };
        if process.try_wait()?.is_some() {
            return Ok(None);
        }
        let pid = Pid::from_raw(process.id().cast_signed());
        kill(pid, signal).with_context(|| format!("can't send {signal} to {pid}"))?;
        Ok(Some(pid))
    }

    fn record(&mut self, number: u32, what: HistoryEventKind) {
        self.seen.push((now(), number, what));
    }
}

impl Drop for LiveProcesses<'_> {
    fn drop(&mut self) {
        *self.ended += kill_all();
    }
}

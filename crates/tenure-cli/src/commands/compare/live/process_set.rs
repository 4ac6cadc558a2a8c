//! The processes of one run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use tempfile::TempDir;
use tenure_lab::sim::{EventKind, Time};

use super::contestant::LiveContestant;
use super::receiver::Receiver;
use crate::processes::{
    Network, NetworkKind, Process, STORE, descendants, in_background, kill_all, now, start_store,
    this_program,
};

/// Candidates, and a store if they need one, in a temporary directory. A drop kills all descendants
/// of this process, including those that other processes have left behind.
#[derive(Debug)]
pub(super) struct ProcessSet<'a> {
    contestant: &'a LiveContestant,
    /// The receiver that leaders write to.
    pub(super) receiver: Receiver,
    pub(super) network: Network,
    /// By number; the store is [`STORE`].
    processes: BTreeMap<u32, Process>,
    frozen: BTreeSet<u32>,
    /// Events of processes with their times.
    pub(super) seen: Vec<(Duration, u32, EventKind)>,
    /// All candidates, best first.
    best_first: Vec<u32>,
    ended: &'a mut Ended,
    /// Dropped last, because the others write to it.
    folder: TempDir,
}

/// How many processes and namespaces have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    processes: usize,
    namespaces: usize,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ended {} processes; none is left", self.processes)?;
        match self.namespaces {
            0 => Ok(()),
            namespaces => write!(f, ", nor any of their {namespaces} network namespaces"),
        }
    }
}

impl<'a> ProcessSet<'a> {
    /// Starts the store. No candidate runs yet.
    pub(super) fn new(
        contestant: &'a LiveContestant,
        candidates: u32,
        network: NetworkKind,
        ended: &'a mut Ended,
    ) -> anyhow::Result<Self> {
        let least = if contestant.needs_store { STORE } else { 1 };
        let numbers: Vec<u32> = (least..=candidates).collect();
        let folder = tempfile::Builder::new()
            .prefix("tenure-compare-")
            .tempdir()?;
        let network = Network::start_kind(network, &numbers)?;
        let mut set = Self {
            contestant,
            receiver: Receiver::start(network.listener()?)?,
            network,
            processes: BTreeMap::new(),
            frozen: BTreeSet::new(),
            seen: Vec::new(),
            best_first: contestant.best_first(candidates),
            ended,
            folder,
        };
        if contestant.needs_store {
            set.start(STORE)?;
        }
        Ok(set)
    }

    /// Starts a process, if it does not run.
    pub(super) fn start(&mut self, number: u32) -> anyhow::Result<()> {
        if self.is_running(number)? {
            return Ok(());
        }
        self.kill(number);
        let folder = self.folder.path();
        let process = if number == STORE {
            let spawn = |store| self.network.spawn(STORE, store);
            start_store(folder, self.network.listen_address(STORE), spawn)?.0
        } else {
            let log = folder.join(format!("{number}.log"));
            let config = self.contestant.write(folder, number, &self.network)?;
            let mut candidate = this_program(&["run"]);
            candidate
                .arg("--config")
                .arg(config)
                .args(["--", "/proc/self/exe", "compare-worker", "--receiver"])
                .arg(self.receiver.address.to_string())
                .current_dir(folder);
            in_background(&mut candidate, &log)?;
            let started = self.network.spawn(number, candidate).map(Process);
            started.with_context(|| format!("can't start candidate {number}"))?
        };
        self.processes.insert(number, process);
        self.record(number, EventKind::Started);
        Ok(())
    }

    /// Whether a process runs.
    pub(super) fn is_running(&mut self, number: u32) -> anyhow::Result<bool> {
        let process = self.processes.get_mut(&number);
        process.map_or(Ok(false), Process::is_running)
    }

    /// Fails with the last log line of a process that has ended by itself.
    pub(super) fn ensure_all_run(&mut self) -> anyhow::Result<()> {
        let numbers: Vec<u32> = self.processes.keys().copied().collect();
        for number in numbers {
            if !self.is_running(number)? {
                let log = self.folder.path().join(format!("{number}.log"));
                let log = fs::read_to_string(log).unwrap_or_default();
                let last = log.lines().last().unwrap_or("its log is empty");
                bail!(
                    "{}: process {number} has ended: {last}",
                    self.contestant.name
                );
            }
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
        if self.processes.remove(&number).is_some() {
            self.frozen.remove(&number);
            self.record(number, EventKind::Stopped);
        }
    }

    /// Sends SIGTERM to `tenure run` alone.
    pub(super) fn stop(&mut self, number: u32) -> anyhow::Result<()> {
        self.signal(number, Signal::SIGTERM)
    }

    /// Removes processes that have ended, some time after they were stopped.
    pub(super) fn collect(&mut self) -> anyhow::Result<()> {
        let numbers: Vec<u32> = self.processes.keys().copied().collect();
        for number in numbers {
            if !self.is_running(number)? {
                self.kill(number);
            }
        }
        Ok(())
    }

    /// Freezes a process with its watchdogs and its command, as if its machine stood still.
    pub(super) fn freeze(&mut self, number: u32) -> anyhow::Result<()> {
        if self.frozen.insert(number) {
            self.signal_all(number, Signal::SIGSTOP)?;
            self.record(number, EventKind::Paused(Time::NEVER));
        }
        Ok(())
    }

    /// Lets a frozen process and its descendants continue.
    pub(super) fn thaw(&mut self, number: u32) -> anyhow::Result<()> {
        if self.frozen.remove(&number) {
            self.signal_all(number, Signal::SIGCONT)?;
            self.record(number, EventKind::Resumed);
        }
        Ok(())
    }

    fn signal_all(&mut self, number: u32, signal: Signal) -> anyhow::Result<()> {
        self.signal(number, signal)?;
        let pid = self.processes.get(&number).map(Process::pid);
        for process in pid.into_iter().flat_map(descendants) {
            // It may have ended meanwhile.
            let _ = kill(process, signal);
        }
        Ok(())
    }

    fn signal(&mut self, number: u32, signal: Signal) -> anyhow::Result<()> {
        if !self.is_running(number)? {
            return Ok(());
        }
        let process = self.processes.get(&number);
        process.map_or(Ok(()), |process| process.signal(signal))
    }

    fn record(&mut self, number: u32, what: EventKind) {
        self.seen.push((now(), number, what));
    }
}

impl Drop for ProcessSet<'_> {
    fn drop(&mut self) {
        let own = std::mem::take(&mut self.processes);
        self.ended.processes += kill_all(own.into_values().collect());
        self.ended.namespaces += self.network.namespaces();
    }
}

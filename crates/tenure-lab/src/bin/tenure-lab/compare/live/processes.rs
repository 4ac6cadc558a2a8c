//! The processes of one run.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use nix::sys::signal::{Signal, kill};
use tenure_sim::sim::{HistoryEventKind, Time};

use super::contestant::LiveContestant;
use super::receiver::Receiver;
use crate::processes::{ProcessSet, STORE, descendants, kill_all, now};

/// Candidates, and a store if they need one. A drop kills all descendants of this process,
/// including those that other processes have left behind.
#[derive(Debug)]
pub(super) struct LiveProcesses<'a> {
    contestant: &'a LiveContestant,
    /// The receiver that leaders write to.
    pub(super) receiver: Receiver,
    pub(super) set: ProcessSet,
    frozen: BTreeSet<u32>,
    /// Events of processes with their times.
    pub(super) seen: Vec<(Duration, u32, HistoryEventKind)>,
    /// All candidates, best first.
    best_first: Vec<u32>,
    /// The number of processes that have ended.
    ended: &'a mut usize,
}

impl<'a> LiveProcesses<'a> {
    /// Starts the store. No candidate runs yet.
    pub(super) fn new(
        contestant: &'a LiveContestant,
        (tenure, candidates): (&Path, u32),
        ended: &'a mut usize,
    ) -> anyhow::Result<Self> {
        let has_store = contestant.needs_store;
        let mut processes = Self {
            contestant,
            receiver: Receiver::start()?,
            set: ProcessSet::new(tenure, candidates, has_store)?,
            frozen: BTreeSet::new(),
            seen: Vec::new(),
            best_first: contestant.best_first(candidates),
            ended,
        };
        if has_store {
            processes.record(STORE, HistoryEventKind::Started);
        }
        Ok(processes)
    }

    /// Starts a process, if it does not run.
    pub(super) fn start(&mut self, number: u32) -> anyhow::Result<()> {
        if self.set.is_running(number)? {
            return Ok(());
        }
        self.kill(number);
        if number == STORE {
            self.set.start_store()?;
        } else {
            let folder = self.set.folder();
            let config = self.contestant.write(folder, number, &self.set.network)?;
            let mut candidate = self.set.tenure(&["run"]);
            candidate
                .arg("--config")
                .arg(config)
                .arg("--")
                .arg(std::env::current_exe()?)
                .args(["compare-worker", "--receiver"])
                .arg(self.receiver.address.to_string())
                .current_dir(folder);
            self.set.start(number, candidate)?;
        }
        self.record(number, HistoryEventKind::Started);
        Ok(())
    }

    /// Fails with the last log line of a process that has ended by itself.
    pub(super) fn ensure_all_run(&mut self) -> anyhow::Result<()> {
        for number in self.set.numbers() {
            if !self.set.is_running(number)? {
                let log = self.set.read_log(number);
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
            if counts && self.set.is_running(number)? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Sends SIGKILL to `tenure run` alone. Its watchdogs must kill the command.
    pub(super) fn kill(&mut self, number: u32) {
        if self.set.kill(number) {
            self.frozen.remove(&number);
            self.record(number, HistoryEventKind::Stopped);
        }
    }

    /// Sends SIGTERM to `tenure run` alone.
    pub(super) fn stop(&mut self, number: u32) -> anyhow::Result<()> {
        self.signal(number, Signal::SIGTERM)
    }

    /// Removes the stopped processes that have ended meanwhile.
    pub(super) fn collect(&mut self) -> anyhow::Result<()> {
        for number in self.set.numbers() {
            if !self.set.is_running(number)? {
                self.kill(number);
            }
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
        self.signal(number, signal)?;
        let pid = self.set.pid(number);
        for process in pid.into_iter().flat_map(descendants) {
            // It may have ended meanwhile.
            let _ = kill(process, signal);
        }
        Ok(())
    }

    fn signal(&mut self, number: u32, signal: Signal) -> anyhow::Result<()> {
        if self.set.is_running(number)? {
            self.set.signal(number, signal)?;
        }
        Ok(())
    }

    fn record(&mut self, number: u32, what: HistoryEventKind) {
        self.seen.push((now(), number, what));
    }
}

impl Drop for LiveProcesses<'_> {
    fn drop(&mut self) {
        *self.ended += kill_all(self.set.take_all());
    }
}

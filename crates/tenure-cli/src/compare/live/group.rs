//! The processes of one run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use tempfile::TempDir;

use super::contestant::Contestant;
use crate::processes::{Network, Process, STORE, below, end_all, start_store, this_program};

/// A store, if one is needed, and candidates, in a folder of their own. When this is dropped every
/// process below this one is ended, those that were left behind with them.
#[derive(Debug)]
pub(super) struct Group<'a> {
    contestant: &'a Contestant,
    receiver: SocketAddr,
    pub(super) network: Network,
    /// The store, too, as [`STORE`].
    processes: BTreeMap<u32, Process>,
    frozen: BTreeSet<u32>,
    /// How many were ended.
    ended: &'a mut usize,
    /// The last to go: the others write to it.
    folder: TempDir,
}

impl<'a> Group<'a> {
    /// This many candidates, none of which runs yet; the store does.
    pub(super) fn new(
        contestant: &'a Contestant,
        candidates: u32,
        receiver: SocketAddr,
        ended: &'a mut usize,
    ) -> anyhow::Result<Self> {
        let least = if contestant.needs_store { STORE } else { 1 };
        let numbers: Vec<u32> = (least..=candidates).collect();
        let folder = tempfile::Builder::new()
            .prefix("tenure-compare-")
            .tempdir()?;
        let mut group = Self {
            contestant,
            receiver,
            network: Network::start(&numbers)?,
            processes: BTreeMap::new(),
            frozen: BTreeSet::new(),
            ended,
            folder,
        };
        if contestant.needs_store {
            group.start(STORE)?;
        }
        Ok(group)
    }

    /// Starts one, if it does not run.
    pub(super) fn start(&mut self, number: u32) -> anyhow::Result<()> {
        if self.is_running(number)? {
            return Ok(());
        }
        let folder = self.folder.path();
        let process = if number == STORE {
            start_store(folder, self.network.listens(STORE))?.0
        } else {
            let log = folder.join(format!("{number}.log"));
            let log = File::options().create(true).append(true).open(log)?;
            let config = self.contestant.write(folder, number, &self.network)?;
            this_program(&["run"])
                .arg("--config")
                .arg(config)
                .args(["--", "/proc/self/exe", "compare-worker", "--receiver"])
                .arg(self.receiver.to_string())
                .current_dir(folder)
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .map(Process)
                .with_context(|| format!("can't start candidate {number}"))?
        };
        self.processes.insert(number, process);
        Ok(())
    }

    pub(super) fn is_running(&mut self, number: u32) -> anyhow::Result<bool> {
        let process = self.processes.get_mut(&number);
        process.map_or(Ok(false), Process::is_running)
    }

    /// Fails with what it said if one has ended by itself.
    pub(super) fn ensure_all_run(&mut self) -> anyhow::Result<()> {
        let numbers: Vec<u32> = self.processes.keys().copied().collect();
        for number in numbers {
            if !self.is_running(number)? {
                let log = self.folder.path().join(format!("{number}.log"));
                let log = fs::read_to_string(log).unwrap_or_default();
                let last = log.lines().last().unwrap_or("it said nothing");
                bail!(
                    "{}: process {number} has ended: {last}",
                    self.contestant.name
                );
            }
        }
        Ok(())
    }

    /// The best candidate that runs, but for this one.
    pub(super) fn best_but(&mut self, leader: Option<u32>) -> anyhow::Result<Option<u32>> {
        let numbers: Vec<u32> = self.processes.keys().copied().collect();
        for number in numbers {
            let counts = number != STORE && Some(number) != leader;
            if counts && !self.frozen.contains(&number) && self.is_running(number)? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// SIGKILL, to `tenure run` alone: what becomes of its command is up to its watchdog.
    pub(super) fn kill(&mut self, number: u32) {
        self.processes.remove(&number);
    }

    /// SIGTERM, to `tenure run` alone.
    pub(super) fn stop(&mut self, number: u32) -> anyhow::Result<()> {
        self.signal(number, Signal::SIGTERM)
    }

    /// Stops it and its watchdog and its command, as if its machine stood still; or lets them go on.
    pub(super) fn freeze(&mut self, number: u32, still: bool) -> anyhow::Result<()> {
        let (signal, changed) = if still {
            (Signal::SIGSTOP, self.frozen.insert(number))
        } else {
            (Signal::SIGCONT, self.frozen.remove(&number))
        };
        if !changed {
            return Ok(());
        }
        self.signal(number, signal)?;
        let pid = self.processes.get(&number).map(Process::pid);
        for process in pid.into_iter().flat_map(below) {
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
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        let own = std::mem::take(&mut self.processes);
        *self.ended += end_all(own.into_values().collect());
    }
}

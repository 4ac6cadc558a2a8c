//! The processes of one run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use tempfile::TempDir;
use tenure_lab::sim::EventKind;

use super::contestant::Contestant;
use super::receiver::Receiver;
use crate::processes::{
    Network, NetworkKind, Process, STORE, below, end_all, now, start_store, this_program,
};

/// A store, if one is needed, and candidates, in a folder of their own. When this is dropped every
/// process below this one is ended, those that were left behind with them.
#[derive(Debug)]
pub(super) struct Group<'a> {
    contestant: &'a Contestant,
    /// What leaders write to.
    pub(super) receiver: Receiver,
    pub(super) network: Network,
    /// The store, too, as [`STORE`].
    processes: BTreeMap<u32, Process>,
    frozen: BTreeSet<u32>,
    /// What was seen of the processes, and when.
    pub(super) seen: Vec<(Duration, u32, EventKind)>,
    /// All candidates, best first.
    best_first: Vec<u32>,
    ended: &'a mut Ended,
    /// The last to go: the others write to it.
    folder: TempDir,
}

/// What was started, and is no more.
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

impl<'a> Group<'a> {
    /// This many candidates, none of which runs yet; the store does.
    pub(super) fn new(
        contestant: &'a Contestant,
        candidates: u32,
        network: NetworkKind,
        ended: &'a mut Ended,
    ) -> anyhow::Result<Self> {
        let least = if contestant.needs_store { STORE } else { 1 };
        let numbers: Vec<u32> = (least..=candidates).collect();
        let folder = tempfile::Builder::new()
            .prefix("tenure-compare-")
            .tempdir()?;
        let network = Network::of(network, &numbers)?;
        let mut group = Self {
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
            group.start(STORE)?;
        }
        Ok(group)
    }

    /// Starts one, if it does not run.
    pub(super) fn start(&mut self, number: u32) -> anyhow::Result<()> {
        if self.is_running(number)? {
            return Ok(());
        }
        self.kill(number);
        let folder = self.folder.path();
        let process = if number == STORE {
            let spawn = |store| self.network.spawn(STORE, store);
            start_store(folder, self.network.listens(STORE), spawn)?.0
        } else {
            let log = folder.join(format!("{number}.log"));
            let log = File::options().create(true).append(true).open(log)?;
            let config = self.contestant.write(folder, number, &self.network)?;
            let mut candidate = this_program(&["run"]);
            candidate
                .arg("--config")
                .arg(config)
                .args(["--", "/proc/self/exe", "compare-worker", "--receiver"])
                .arg(self.receiver.address.to_string())
                .current_dir(folder)
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log);
            let started = self.network.spawn(number, candidate).map(Process);
            started.with_context(|| format!("can't start candidate {number}"))?
        };
        self.processes.insert(number, process);
        self.saw(number, EventKind::Started);
        Ok(())
    }

    /// Whether it runs.
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

    /// The one of this place among all candidates: 1 is the best.
    pub(super) fn of_place(&self, place: u32) -> Option<u32> {
        let index = (place as usize).checked_sub(1)?;
        self.best_first.get(index).copied()
    }

    /// The best candidate that runs, but for this one.
    pub(super) fn best_but(&mut self, leader: Option<u32>) -> anyhow::Result<Option<u32>> {
        for number in self.best_first.clone() {
            let counts = Some(number) != leader && !self.frozen.contains(&number);
            if counts && self.is_running(number)? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// SIGKILL, to `tenure run` alone: what becomes of its command is up to its watchdog.
    pub(super) fn kill(&mut self, number: u32) {
        if self.processes.remove(&number).is_some() {
            self.frozen.remove(&number);
            self.saw(number, EventKind::Stopped);
        }
    }

    /// SIGTERM, to `tenure run` alone.
    pub(super) fn stop(&mut self, number: u32) -> anyhow::Result<()> {
        self.signal(number, Signal::SIGTERM)
    }

    /// Forgets those that have ended, which they do some time after they were stopped.
    pub(super) fn collect(&mut self) -> anyhow::Result<()> {
        let numbers: Vec<u32> = self.processes.keys().copied().collect();
        for number in numbers {
            if !self.is_running(number)? {
                self.kill(number);
            }
        }
        Ok(())
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
        self.saw(
            number,
            match still {
                true => EventKind::Paused(tenure_lab::sim::Time::NEVER),
                false => EventKind::Resumed,
            },
        );
        Ok(())
    }

    fn signal(&mut self, number: u32, signal: Signal) -> anyhow::Result<()> {
        if !self.is_running(number)? {
            return Ok(());
        }
        let process = self.processes.get(&number);
        process.map_or(Ok(()), |process| process.signal(signal))
    }

    fn saw(&mut self, number: u32, what: EventKind) {
        self.seen.push((now(), number, what));
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        let own = std::mem::take(&mut self.processes);
        self.ended.processes += end_all(own.into_values().collect());
        self.ended.namespaces += self.network.namespaces();
    }
}

//! The store under test: a process that is killed, stopped and started again.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tenure_sim::sim::Rng;
use tenure_tests::process::Process;

/// The longest time for a store's start, on a machine that is busy with its clients.
const START: Duration = Duration::from_secs(20);

/// The longest time for a store's shutdown.
const STOP: Duration = Duration::from_secs(20);

/// The store's process, if it is running.
#[derive(Debug)]
pub(crate) struct Server {
    binary: PathBuf,
    folder: PathBuf,
    log: PathBuf,
    address: SocketAddr,
    /// Further arguments of `tenure serve`.
    arguments: Vec<PathBuf>,
    /// A library that moves the store's wall clock, and the file with the offset.
    clock: Option<(PathBuf, PathBuf)>,
    process: Option<Process>,
}

impl Server {
    /// A store that is not running yet.
    pub(crate) fn new(binary: &Path, folder: PathBuf, log: PathBuf, dice: &mut Rng) -> Self {
        Self {
            binary: binary.to_owned(),
            folder,
            log,
            address: free_address(dice),
            arguments: Vec::new(),
            clock: None,
            process: None,
        }
    }

    /// Adds arguments from the next start on.
    pub(crate) fn with_arguments(&mut self, arguments: impl IntoIterator<Item = PathBuf>) {
        self.arguments.extend(arguments);
    }

    /// Makes the wall clock adjustable from the next start on.
    pub(crate) fn with_clock(&mut self, library: PathBuf, ahead: PathBuf) {
        self.clock = Some((library, ahead));
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the wall clock this many seconds ahead of this machine's; a negative number sets it
    /// behind.
    pub(crate) fn set_clock(&self, seconds: i64) {
        if let Some((_, ahead)) = &self.clock {
            let next = ahead.with_extension("next");
            // In one step, as a clock jumps.
            let _ = fs::write(&next, seconds.to_string()).and_then(|()| fs::rename(&next, ahead));
        }
    }

    /// Starts the store. An error contains the last line of its log.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let mut command = Command::new(&self.binary);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TENURE_") {
                command.env_remove(name);
            }
        }
        command.env("TENURE_LOG", "info");
        if let Some((library, ahead)) = &self.clock {
            command
                .env("LD_PRELOAD", library)
                .env("WALL_CLOCK_AHEAD", ahead);
        }
        command.args(["serve", "--listen", &self.address.to_string()]);
        command.arg("--data-dir").arg(&self.folder);
        command.args(&self.arguments);
        let mut process = Process::spawn(&mut command);
        let begin = Instant::now();
        while !process.stdout().starts_with("listening on ") {
            if process.has_ended() || begin.elapsed() > START {
                // Another thread reads the last output.
                sleep(Duration::from_millis(50));
                let stderr = process.stderr();
                self.note(&process);
                let last = stderr.lines().next_back().unwrap_or("it does not start");
                return Err(last.to_owned());
            }
            sleep(Duration::from_millis(2));
        }
        self.process = Some(process);
        Ok(())
    }

    /// Sends a signal to the store.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if let Some(process) = &mut self.process
            && !process.has_ended()
        {
            process.signal(signal);
        }
    }

    /// Stops the store, and waits until none of its threads runs. A thread that waits for the disk
    /// stops when that call returns.
    pub(crate) fn stop_all_threads(&mut self) {
        self.signal(Signal::SIGSTOP);
        let Some(process) = &self.process else {
            return;
        };
        let threads = format!("/proc/{}/task", process.pid());
        let begin = Instant::now();
        while begin.elapsed() < STOP && !fs::read_dir(&threads).is_ok_and(are_all_stopped) {
            sleep(Duration::from_millis(1));
        }
    }

    /// Whether the store has ended without a request to do so.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::has_ended)
    }

    /// Waits for the store's end, up to `limit`. Returns whether it has ended.
    pub(crate) fn ends_within(&mut self, limit: Duration) -> bool {
        let begin = Instant::now();
        while !self.has_ended() {
            if begin.elapsed() > limit {
                return self.process.is_none();
            }
            sleep(Duration::from_millis(2));
        }
        true
    }

    /// Terminates the store and waits. Returns whether it has ended in time.
    pub(crate) fn stop(&mut self) -> bool {
        self.signal(Signal::SIGTERM);
        let has_ended = self.ends_within(STOP);
        self.kill();
        has_ended
    }

    /// Kills the store, if it is running.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            if !process.has_ended() {
                process.signal(Signal::SIGKILL);
                process.wait();
            }
            self.note(&process);
        }
    }

    /// Appends the output of the process to the log.
    fn note(&self, process: &Process) {
        let mut log = OpenOptions::new();
        if let Ok(mut log) = log.create(true).append(true).open(&self.log) {
            let _ = log.write_all(process.stderr().as_bytes());
            let _ = writeln!(log, "-- process {} has ended", process.pid());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An address that the store can use again after a restart. The ports of outgoing connections are
/// higher on Linux: while the store is down, a connecting client must not get its port. Other test
/// programs use ports from 20,000 on.
fn free_address(dice: &mut Rng) -> SocketAddr {
    loop {
        let port = 15_000 + dice.below(5_000) as u16;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Whether all of these threads are stopped or wait for the disk.
fn are_all_stopped(mut threads: fs::ReadDir) -> bool {
    threads.all(|thread| {
        let stat = thread.and_then(|thread| fs::read_to_string(thread.path().join("stat")));
        // The state follows the name, which is in brackets.
        let state = stat.ok().and_then(|stat| {
            let (_, rest) = stat.rsplit_once(") ")?;
            rest.chars().next()
        });
        matches!(state, None | Some('T' | 'D' | 'Z' | 'X'))
    })
}

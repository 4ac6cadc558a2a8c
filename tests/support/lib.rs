//! The shared parts of the whole-system tests: stores, groups of members, processes, a network that
//! fails on demand, checks of the actions of leaders and the answers of stores, and waiting for a
//! condition with a limit.

pub mod access_file;
pub mod api_server;
pub mod azurite;
pub mod bucket;
pub mod cluster;
pub mod data_dir;
pub mod electors;
pub mod engine;
pub mod etcd;
pub mod group;
pub mod needs;
pub mod network;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod promtool;
pub mod servers;
pub mod store;
pub mod strace;

pub mod chain;
pub mod client;
pub mod flood;
pub mod history;
pub mod receiver;
pub mod tap;
pub mod ticks;
pub mod wire;

pub use tenure_lab::proxy;

use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a test waits for an expected event. Only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The time between two checks of a condition. A check often asks several processes, and takes
/// processor time from the tests beside it.
const PACE: Duration = Duration::from_millis(20);

/// Waits until `condition` returns a value.
///
/// # Panics
///
/// If it does not within [`PATIENCE`]; the message contains `what`.
#[track_caller]
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(value) = condition() {
            return value;
        }
        thread::sleep(PACE);
    }
    panic!("timed out waiting for {what}");
}

/// Waits until `condition` returns a value, without blocking the runtime.
///
/// # Panics
///
/// If it does not within [`PATIENCE`]; the message contains `what`.
pub async fn wait_until<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(value) = condition().await {
            return value;
        }
        tokio::time::sleep(PACE).await;
    }
    panic!("timed out waiting for {what}");
}

/// A limit for a whole test: when the time is up before the limit is dropped, the process exits
/// with an error. So a test that would hang fails.
#[derive(Debug)]
pub struct Limit {
    _alive: mpsc::Sender<()>,
}

impl Limit {
    /// Twice the [`PATIENCE`], for tests that wait more than once.
    #[must_use]
    pub fn start() -> Self {
        let (alive, ended) = mpsc::channel();
        let test = thread::current().name().unwrap_or("a test").to_owned();
        thread::spawn(move || {
            if ended.recv_timeout(2 * PATIENCE) == Err(RecvTimeoutError::Timeout) {
                // Not `eprintln!`: the captured output of a hanging test is never shown.
                let _ = writeln!(io::stderr(), "{test} hangs");
                // An exit drops nothing, so the processes of the test would stay.
                for started in &process::descendants(Pid::this())[1..] {
                    let _ = kill(*started, Signal::SIGKILL);
                }
                std::process::exit(1);
            }
        });
        Self { _alive: alive }
    }
}

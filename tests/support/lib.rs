//! What the whole-system tests share: stores, groups of members, processes, a network that fails on
//! demand, judges of what leaders did and stores said, and waiting for a condition with a limit.

pub mod azurite;
pub mod group;
pub mod needs;
pub mod process;
pub mod store;

pub mod history;
pub mod receiver;
pub mod tap;

pub use tenure_lab::proxy;

use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a test waits for something that will happen. Only a test that fails waits so long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `condition` gives something.
///
/// # Panics
///
/// If it does not within [`PATIENCE`], with what was waited for.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(value) = condition() {
            return value;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("waited for {what} in vain");
}

/// Waits until `condition` gives something, without blocking the runtime.
///
/// # Panics
///
/// If it does not within [`PATIENCE`], with what was waited for.
pub async fn wait_until<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(value) = condition().await {
            return value;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("waited for {what} in vain");
}

/// A limit for a whole test: while it lives, a clock runs, and when that has run down the process
/// ends with an error. A promise that is broken so that a test would hang makes it fail.
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
                // Not print: the output of a test that hangs is never shown.
                let _ = writeln!(io::stderr(), "{test} hangs");
                // Nothing is dropped by an exit, and its processes would go on for ever.
                for started in &process::descendants(Pid::this())[1..] {
                    let _ = kill(*started, Signal::SIGKILL);
                }
                std::process::exit(1);
            }
        });
        Self { _alive: alive }
    }
}

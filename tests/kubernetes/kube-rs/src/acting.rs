//! The actions of a leader, on a thread of their own.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// The interval of the actions.
const PACE: Duration = Duration::from_millis(10);

pub(crate) struct Acting {
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Acting {
    /// Acts at the receiver whenever this candidate leads. These electors have no epoch, so the wall
    /// clock in milliseconds at the beginning of a term stands for it.
    pub(crate) fn start(
        receiver: &str,
        identity: String,
        leads: impl Fn() -> bool + Send + 'static,
    ) -> std::io::Result<Self> {
        let mut link = BufReader::new(TcpStream::connect(receiver)?);
        let stopped = Arc::new(AtomicBool::new(false));
        let is_stopped = stopped.clone();
        let act = move || {
            let mut epoch = None;
            while !is_stopped.load(Ordering::Acquire) {
                let before = now();
                if leads() {
                    let after = now();
                    let epoch = epoch.get_or_insert_with(wall_clock);
                    let line = format!("act {identity} {epoch} {before} {after}\n");
                    let written = link.get_ref().write_all(line.as_bytes());
                    written.expect("a receiver");
                    link.read_line(&mut String::new()).expect("a receiver");
                } else {
                    epoch = None;
                }
                thread::sleep(PACE);
            }
        };
        let thread = thread::spawn(act);
        Ok(Self { stopped, thread })
    }

    /// Returns after the last action.
    pub(crate) fn stop(self) {
        self.stopped.store(true, Ordering::Release);
        self.thread.join().expect("the actions end");
    }
}

/// The clock of the receiver, in nanoseconds.
fn now() -> u128 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    Duration::from(time).as_nanos()
}

fn wall_clock() -> u128 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    time.expect("a clock after 1970").as_millis()
}

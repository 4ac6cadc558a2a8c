//! The thread that ends the process before another candidate may lead, if work of a term still
//! runs then.
//!
//! It depends on nothing that the application can block: not on the candidate's thread, which waits
//! for the subscriber of its log lines, not on an async runtime, and not on exit handlers.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use signal_hook::low_level::exit;
use tenure_core::lease::candidate::TICK_INTERVAL;
use tracing::error;

use crate::config::OnOverrun;
use crate::election::term::TermState;

/// The longest time that the end of the process waits for its last line. With short leases it is
/// the abort allowance, so that the process is gone by the middle of the margin.
const LAST_LINE: Duration = Duration::from_millis(100);

/// The time until the next check of aborted parts that do not run, but were not dropped yet.
const RECHECK: Duration = Duration::from_millis(5);

/// Waits until the log lines of this process are written, for at most this time.
static FLUSH: OnceLock<fn(Duration)> = OnceLock::new();

/// Sets the function that waits for the writer of the log, if lines are written by another thread.
/// Only the first call counts.
pub fn set_flush(flush: fn(Duration)) {
    let _ = FLUSH.set(flush);
}

/// The channel to the thread.
#[derive(Clone, Debug)]
pub(crate) struct OverrunWatch(mpsc::Sender<Arc<TermState>>);

impl OverrunWatch {
    /// Starts the thread. It ends when the channel is closed and all of its terms are over.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (sender, terms) = mpsc::channel();
        thread::Builder::new()
            .name("tenure-overrun".into())
            .spawn(move || watch(&terms))?;
        Ok(Self(sender))
    }

    /// Watches a term, which knows its deadline.
    pub(crate) fn watch(&self, term: Arc<TermState>) {
        // The thread does not end before its channels.
        let _ = self.0.send(term);
    }
}

fn watch(terms: &mpsc::Receiver<Arc<TermState>>) {
    let mut running: Vec<Arc<TermState>> = Vec::new();
    let mut is_open = true;
    while is_open || !running.is_empty() {
        let wait = running.iter().map(|term| term.until(&term.overrun_at));
        // The ticks are for a machine that was suspended: a timer does not count that time.
        let wait = wait.min().map(|wait| wait.clamp(RECHECK, TICK_INTERVAL));
        let received = match wait {
            None => terms.recv().map_err(RecvTimeoutError::from),
            Some(wait) if is_open => terms.recv_timeout(wait),
            Some(wait) => {
                thread::sleep(wait);
                Err(RecvTimeoutError::Timeout)
            }
        };
        match received {
            Ok(term) => running.push(term),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => is_open = false,
        }
        running.retain(|term| term.parts.exist());
        for term in &running {
            if term.until(&term.overrun_at).is_zero() {
                // Usually the driver has aborted it before.
                term.aborted.cancel();
                let allowance = term.config.timings.abort_allowance();
                if term.parts.outlive_abort(allowance) {
                    end_process(term);
                }
            }
        }
    }
}

/// Ends the process, without destructors and exit handlers: they may wait for the work that does
/// not stop. The last line has a thread of its own, because its writer may block.
fn end_process(term: &Arc<TermState>) -> ! {
    let (done, logged) = mpsc::channel();
    let wait = LAST_LINE.min(term.config.timings.abort_allowance());
    let overrun = term.clone();
    let log = move || {
        let config = &overrun.config;
        let (election, candidate) = (&config.election, &config.candidate);
        error!(%election, %candidate, epoch = overrun.epoch.get(), running = overrun.parts.names(),
            exit_code = OnOverrun::EXIT_CODE,
            "the task still runs after its term, so this process ends, because on_overrun is \"exit\"; \
             with on_overrun = \"report\" the task would go on beside the next leader");
        if let Some(flush) = FLUSH.get() {
            flush(wait);
        }
        let _ = done.send(());
    };
    let logging = thread::Builder::new().name("tenure-last-line".into());
    if logging.spawn(log).is_ok() {
        let _ = logged.recv_timeout(wait);
    }
    exit(OnOverrun::EXIT_CODE)
}

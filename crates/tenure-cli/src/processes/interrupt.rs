//! Ctrl-C and other signals that end a command with child processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use anyhow::anyhow;
use nix::sys::signal::Signal;
use tenure::__cli::SAME_REQUEST;
use tokio::signal::unix::{SignalKind, signal};

use crate::{exit, logging, runtime};

/// The effect of a second signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecondSignal {
    /// The signal ends this process at once, and the kernel ends the other processes.
    Ends,
    /// The signal has no effect. This process is killing the others, which is quick. If it ended
    /// before, the kernel would not kill all of them.
    Ignored,
}

/// The first signal that asked this process to end, or 0.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicI32>);

impl Interrupt {
    /// Handles SIGINT, SIGTERM and SIGHUP from now on. The processes that this one starts are in
    /// process groups of their own, so the terminal does not signal them.
    pub(crate) fn handle(second: SecondSignal) -> anyhow::Result<Self> {
        let interrupt = Self(Arc::default());
        let first = interrupt.0.clone();
        let runtime = runtime::current_thread()?;
        let inside = runtime.enter();
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut terminates = signal(SignalKind::terminate())?;
        let mut hangups = signal(SignalKind::hangup())?;
        drop(inside);
        std::thread::spawn(move || {
            runtime.block_on(async {
                let mut since = None;
                loop {
                    let signal = tokio::select! {
                        _ = interrupts.recv() => Signal::SIGINT,
                        _ = terminates.recv() => Signal::SIGTERM,
                        _ = hangups.recv() => Signal::SIGHUP,
                    } as i32;
                    let order = Ordering::Relaxed;
                    let is_first = first.compare_exchange(0, signal, order, order);
                    let since = *since.get_or_insert_with(Instant::now);
                    let is_second = is_first.is_err() && since.elapsed() >= SAME_REQUEST;
                    if is_second && second == SecondSignal::Ends {
                        logging::flush(logging::FLUSH_TIMEOUT);
                        std::process::exit(128 + signal);
                    }
                }
            });
        });
        Ok(interrupt)
    }

    /// Fails, with the exit code of the signal, if there was one.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let signal = self.0.load(Ordering::Relaxed);
        if signal == 0 {
            return Ok(());
        }
        let code = u8::try_from(128 + signal).unwrap_or(1);
        let error = anyhow!("interrupted; all processes that were started are stopped");
        Err(exit::error(code, error))
    }
}

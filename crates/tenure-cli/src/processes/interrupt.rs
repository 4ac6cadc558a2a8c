//! Ctrl-C, and other ways to ask a command that has started processes to end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Failure;
use crate::logging;

/// A signal has ended it; all its processes are stopped.
#[derive(Debug)]
pub(crate) struct Interrupted(pub(crate) i32);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted; all processes that were started are stopped")
    }
}

impl std::error::Error for Interrupted {}

/// Why a command that listens to [`notice`] has failed, with the exit code that belongs to it.
pub(crate) fn failure(error: anyhow::Error) -> Failure {
    let signal = error.downcast_ref().map(|Interrupted(signal)| *signal);
    let code = signal.and_then(|signal| u8::try_from(128 + signal).ok());
    Failure::new(code.unwrap_or(1), error)
}

/// What a second signal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Second {
    /// It ends this process at once, and the kernel ends the others.
    EndsAtOnce,
    /// Nothing: the others are being killed, which takes no time, and the kernel would not find all.
    Nothing,
}

/// The first signal that asks to end, or 0. The processes that were started are in process groups of
/// their own, so they get theirs from here.
pub(crate) fn notice(second: Second) -> anyhow::Result<Arc<AtomicI32>> {
    let interrupted = Arc::new(AtomicI32::new(0));
    let first = interrupted.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let inside = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    drop(inside);
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                let signal = tokio::select! {
                    _ = interrupt.recv() => Signal::SIGINT,
                    _ = terminate.recv() => Signal::SIGTERM,
                    _ = hangup.recv() => Signal::SIGHUP,
                } as i32;
                let order = Ordering::Relaxed;
                let is_first = first.compare_exchange(0, signal, order, order);
                if is_first.is_err() && second == Second::EndsAtOnce {
                    logging::finish(logging::LAST_LINES);
                    std::process::exit(128 + signal);
                }
            }
        });
    });
    Ok(interrupted)
}

//! Ctrl-C, and other ways to ask the demo to end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// The demo was ended by a signal; all its processes are stopped.
#[derive(Debug)]
pub(super) struct Interrupted(pub(super) i32);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted; all processes of the demo are stopped")
    }
}

impl std::error::Error for Interrupted {}

/// The first signal that asks to end, or 0. The workers are in process groups of their own, so they
/// get theirs from here. A second signal ends this process at once, and the kernel ends the others.
pub(super) fn notice() -> anyhow::Result<Arc<AtomicI32>> {
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
                if first.swap(signal, Ordering::Relaxed) != 0 {
                    std::process::exit(128 + signal);
                }
            }
        });
    });
    Ok(interrupted)
}

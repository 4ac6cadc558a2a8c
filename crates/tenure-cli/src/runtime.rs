//! Async runtimes, and the signals that stop a command.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

pub(crate) fn current_thread() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

pub(crate) fn multi_thread() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

/// Keeps the memory of this process, which contains secrets, from other processes of its user and
/// from core dumps.
pub(crate) fn keep_memory_private() {
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::debug!(%error, "can't turn off core dumps");
    }
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<T, E>(future: impl Future<Output = Result<T, E>>) -> anyhow::Result<T>
where
    anyhow::Error: From<E>,
{
    Ok(current_thread()?.block_on(future)?)
}

/// The name of the signal that asks this process to stop: SIGTERM or SIGINT. Both are handled from
/// this call on.
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = &'static str>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

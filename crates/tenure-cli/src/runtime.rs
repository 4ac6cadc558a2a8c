//! Async runtimes, and the signals that stop a command.

use std::future::Future;
use std::io;

use nix::sys::signal::Signal;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

pub(crate) fn current_thread() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

pub(crate) fn multi_thread(workers: usize) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all().build()
}

/// The default number of threads that answer requests. One core is for the thread that commits and
/// for the kernel: with a thread more, requests wait for both.
pub(crate) fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.saturating_sub(1).max(1)
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

/// Lets a write beyond the limit of file sizes (`ulimit -f`, `LimitFSIZE=`) fail like a write to a
/// full disk, instead of ending this process. The signal is handled and not ignored, because the
/// programs that this one starts would inherit an ignored signal.
pub(crate) fn survive_limit_of_file_size() -> io::Result<()> {
    handle_without_effect(&[Signal::SIGXFSZ])
}

/// Gives these signals no effect on this process. The handlers outlast the runtime.
pub(crate) fn handle_without_effect(signals: &[Signal]) -> io::Result<()> {
    let runtime = current_thread()?;
    let _inside = runtime.enter();
    for kind in signals {
        drop(signal(SignalKind::from_raw(*kind as i32))?);
    }
    Ok(())
}

/// Whether this process was started with this signal ignored.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal as u32 - 1) & 1 == 1)
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

//! Signals that stop `tenure run`.

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::runtime;

/// A token that is cancelled by SIGTERM, by Ctrl-C, and by the end of the terminal.
pub(super) fn shutdown() -> std::io::Result<CancellationToken> {
    let stop = runtime::stop_signal()?;
    // A process that was started by `nohup` must continue.
    let mut hangup = if is_ignored(Signal::SIGHUP) {
        None
    } else {
        Some(signal(SignalKind::hangup())?)
    };
    let token = CancellationToken::new();
    let shutdown = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = stop => {}
            Some(_) = next(&mut hangup) => {}
        }
        shutdown.cancel();
    });
    Ok(token)
}

/// The next signal, if this kind of signal is handled.
async fn next(signals: &mut Option<tokio::signal::unix::Signal>) -> Option<()> {
    signals.as_mut()?.recv().await
}

/// Whether this process was started with this signal ignored.
pub(super) fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal as u32 - 1) & 1 == 1)
}

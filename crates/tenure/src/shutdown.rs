//! The signals that stop a process.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Completes when the process receives SIGTERM, which service managers, container platforms and
/// `kill` send, or SIGINT, which Ctrl-C sends. Use this future as the `shutdown` of a
/// [`Candidate`](crate::Candidate) that exists as long as its process: the task ends, and then the
/// lease is released.
///
/// The shutdown takes some time: a leader's task has its stop grace, and then the release of the
/// lease takes at most 5 s, however long the lease is. A candidate that does not lead needs at most
/// 1 s. Both take some milliseconds with a store that answers.
///
/// From this call on, the two signals no longer end the process, even before the future is awaited
/// and after it is dropped. All of these futures in one process complete at a signal.
///
/// # Errors
///
/// If the operating system does not let the process handle signals. Nothing has changed then.
///
/// # Panics
///
/// Panics outside of a tokio runtime with IO.
///
/// # Examples
///
/// ```no_run
/// # async fn example(candidate: tenure::Candidate) -> Result<(), Box<dyn std::error::Error>> {
/// candidate
///     .run_while_leader(tenure::shutdown_signal()?, |leadership| async move {
///         leadership.lost().await;
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

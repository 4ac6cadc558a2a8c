//! The signals that stop a process.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Completes when the process receives SIGTERM, as from a service manager, a container platform or
/// `kill`, or SIGINT, as from Ctrl-C. Use it as the `shutdown` of a [`Candidate`](crate::Candidate)
/// that lives as long as its process: the task ends, and then the lease is released.
///
/// How long that takes: a leader's task has its stop grace, and the release of the lease has a
/// timeout (5 s in all with a store that does not answer and a task that stops at once); a
/// candidate that does not lead needs up to 1 s.
///
/// From this call on, and not only while it is awaited, the two signals do not end the process by
/// themselves, even after this is dropped. All of these futures in one process receive a signal.
///
/// # Errors
///
/// The operating system does not let the process handle signals. Nothing has changed then.
///
/// # Panics
///
/// Outside of a tokio runtime with IO.
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

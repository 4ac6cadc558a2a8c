//! How a process is told to stop.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Completes when this process is told to stop: by SIGTERM, as from a service manager, a container
/// platform or `kill`, or by SIGINT, as from Ctrl-C. It is the `shutdown` of a
/// [`Candidate`](crate::Candidate) that lives as long as its process: the task ends, and then the lease
/// is released.
///
/// From the call on, not only once it is awaited, these two signals don't end the process by themselves
/// any more, also when this was dropped. Several of these in one process all hear a signal.
///
/// # Errors
///
/// The operating system does not let the process listen for signals. Nothing has changed then.
///
/// # Panics
///
/// Outside of a tokio runtime whose IO is enabled.
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

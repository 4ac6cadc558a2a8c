//! The signals that stop a process.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default, register_conditional_shutdown};
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
/// From this call on, the first of the two signals no longer ends the process, even before the
/// future is awaited and after it is dropped. All of these futures in one process complete at it. A
/// second signal ends the process at once, as it would without this function: a task that does not
/// stop can't keep the process alive. The lease is then not released, and expires. If the process
/// has the id 1, the exit code is 128 plus the number of the signal. Each call of this function
/// begins with a first signal again.
///
/// # Cancel safety
///
/// A signal that arrives before the future is awaited completes it.
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
    end_at_second_signal()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Whether the process has received a signal since the last call of [`shutdown_signal`].
static IS_STOPPING: AtomicBool = AtomicBool::new(false);

/// Lets the second signal have its default action. The handler does that, so it also works if all
/// threads are blocked.
fn end_at_second_signal() -> io::Result<()> {
    static REGISTERED: Mutex<bool> = Mutex::new(false);
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    IS_STOPPING.store(false, Ordering::SeqCst);
    if !std::mem::replace(&mut *registered, true) {
        for signal in [SIGTERM, SIGINT] {
            // The handlers run in this order: the first signal finds false.
            if std::process::id() == 1 {
                // The kernel ignores the default action of a signal for the first process.
                register_conditional_shutdown(signal, 128 + signal, &IS_STOPPING)?;
            } else {
                register_conditional_default(signal, &IS_STOPPING)?;
            }
            register(signal, &IS_STOPPING)?;
        }
    }
    Ok(())
}

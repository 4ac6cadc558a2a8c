//! The signals that stop a process.

use std::future::Future;
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register_conditional_default, register_conditional_shutdown};
use signal_hook::low_level::pipe;
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
/// second signal, 100 ms after the first one or later, ends the process at once, as it would without
/// this function: a task that does not stop can't keep the process alive. The lease is then not
/// released, and expires. If the process has the id 1, the exit code is 128 plus the number of the
/// signal. Each call of this function begins with a first signal again.
///
/// # Cancel safety
///
/// A signal that arrives before the future is awaited completes it.
///
/// # Errors
///
/// If the operating system does not let the process handle signals or start a thread.
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

/// Signals within this time of the first one are the same request: `timeout` of coreutils signals its
/// child and then its process group, and a supervisor may signal both a process and its group.
pub const SAME_REQUEST: Duration = Duration::from_millis(100);

/// Whether a signal ends the process: there was another one, at least [`SAME_REQUEST`] before, since
/// the last call of [`shutdown_signal`].
static IS_STOPPING: AtomicBool = AtomicBool::new(false);

/// The number of calls of [`shutdown_signal`].
static CALLS: Mutex<u64> = Mutex::new(0);

fn calls() -> MutexGuard<'static, u64> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the second signal have its default action. The handler does that, so it also works if all
/// other threads are blocked.
fn end_at_second_signal() -> io::Result<()> {
    let mut calls = calls();
    if *calls == 0 {
        let (reader, writer) = UnixStream::pair()?;
        let thread = thread::Builder::new().name("tenure-signals".into());
        thread.spawn(move || follow_signals(reader))?;
        for signal in [SIGTERM, SIGINT] {
            if std::process::id() == 1 {
                // The kernel ignores the default action of a signal for the first process.
                register_conditional_shutdown(signal, 128 + signal, &IS_STOPPING)?;
            } else {
                register_conditional_default(signal, &IS_STOPPING)?;
            }
            pipe::register(signal, writer.try_clone()?)?;
        }
    }
    IS_STOPPING.store(false, Ordering::SeqCst);
    *calls += 1;
    Ok(())
}

/// Lets later signals end the process, some time after each signal that this pipe reports.
fn follow_signals(mut signals: UnixStream) {
    while signals.read_exact(&mut [0]).is_ok() {
        let call = *calls();
        thread::sleep(SAME_REQUEST);
        let calls = calls();
        if *calls == call {
            IS_STOPPING.store(true, Ordering::SeqCst);
        }
    }
}

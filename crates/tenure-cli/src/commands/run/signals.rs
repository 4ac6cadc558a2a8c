//! The signals of `tenure run`.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenure::SAME_REQUEST;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::process_group;
use crate::logging;
use crate::runtime::is_ignored;

/// The signals that are for the command: services rotate logs, reload or dump their state by them.
const PASSED_ON: [Signal; 5] = [
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGQUIT,
    Signal::SIGWINCH,
];

/// The time that a killed group gets until it is gone, when this process ends at a second signal.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// The first process of the command, while it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstProcess(Arc<Mutex<Option<Pid>>>);

impl FirstProcess {
    /// Lets this process have the signals until the returned value is dropped.
    pub(super) fn set(&self, pid: Pid) -> impl Drop + use<> {
        struct Unset(FirstProcess);
        impl Drop for Unset {
            fn drop(&mut self) {
                *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(pid);
        Unset(self.clone())
    }

    /// Passes a signal on. Without a command the signal has no effect.
    fn signal(&self, signal: Signal) {
        let pid = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match pid.map(|pid| kill(pid, signal)) {
            None => debug!(%signal, "no command runs, ignoring a signal"),
            Some(Ok(())) => debug!(%signal, "passed a signal on to the command"),
            Some(Err(error)) => debug!(%signal, %error, "can't pass a signal on"),
        }
    }
}

/// Handles the signals of this process from now on, on the current runtime. The token is cancelled
/// by SIGTERM, by Ctrl-C, and by the end of the terminal. After that and [`SAME_REQUEST`], SIGTERM or
/// Ctrl-C kills the command and ends this process, without a release of the lease.
pub(super) fn handle(command: &FirstProcess) -> io::Result<CancellationToken> {
    let (sender, mut stops) = mpsc::unbounded_channel();
    for stop in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        // A process that was started by `nohup` must continue.
        if stop != Signal::SIGHUP || !is_ignored(stop) {
            let sender = sender.clone();
            on_each(stop, move || {
                let _ = sender.send(stop);
            })?;
        }
    }
    for passed in PASSED_ON {
        let command = command.clone();
        on_each(passed, move || command.signal(passed))?;
    }
    let token = CancellationToken::new();
    let shutdown = token.clone();
    tokio::spawn(async move {
        stops.recv().await;
        let first = Instant::now();
        shutdown.cancel();
        // A terminal that closes, or a service manager, may send more than one hang-up.
        let second = loop {
            match stops.recv().await {
                Some(_) if first.elapsed() < SAME_REQUEST => {}
                Some(Signal::SIGHUP) => {}
                Some(second) => break second,
                None => return,
            }
        };
        warn!(signal = %second, "a second signal: killing the command, and ending without a release");
        process_group::kill_all(KILL_TIMEOUT);
        logging::flush(logging::FLUSH_TIMEOUT);
        std::process::exit(128 + second as i32);
    });
    Ok(token)
}

/// Calls a function at each of these signals, which no longer have their default effect.
fn on_each(kind: Signal, act: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = signal(SignalKind::from_raw(kind as i32))?;
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            act();
        }
    });
    Ok(())
}

//! The signals that stop a process. This test is a separate program, because the signals remain
//! caught after it.

use nix::sys::signal::{Signal, raise};
use tenure::shutdown_signal;

/// Without a handler the signal would end this program.
#[tokio::test]
async fn both_signals_complete_every_shutdown_future() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (one, other) = (shutdown_signal().unwrap(), shutdown_signal().unwrap());
        raise(signal).unwrap();
        one.await;
        other.await;
    }
}

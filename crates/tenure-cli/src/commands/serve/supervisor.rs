//! The protocol of systemd with a service that it starts: the listening socket, readiness, reloads
//! and the watchdog. Without the variables of systemd in the environment, each function does
//! nothing.

use std::net::TcpListener;
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;
use tracing::{debug, warn};

use crate::exit;

/// The number of signs of life within the time after which systemd considers the service hung, so
/// that a busy machine may delay two of them.
const SIGNS_OF_LIFE: u32 = 3;

/// Returns the socket that systemd listens on for this service (`LISTEN_FDS`), if there is one.
pub(super) fn inherited_listener() -> anyhow::Result<Option<TcpListener>> {
    let mut sockets = ListenFd::from_env();
    if sockets.len() > 1 {
        return Err(exit::bad_configuration(format!(
            "LISTEN_FDS passes {} sockets, and a store listens on one: leave one ListenStream in the socket unit",
            sockets.len()
        )));
    }
    sockets.take_tcp_listener(0).map_err(|error| {
        exit::bad_configuration(format!(
            "LISTEN_FDS passes a socket that is no TCP listener ({error}): write ListenStream=PORT in the \
             socket unit"
        ))
    })
}

/// Reports that the store answers requests.
pub(super) fn ready(address: &str) {
    let status = format!("listening on {address}");
    notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// Reports that the store ends.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Reports that the store reads its files again. [`reloaded`] must follow.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => debug!(%error, "can't read the clock for systemd"),
    }
}

/// Reports that the store has read its files again, or keeps those before.
pub(super) fn reloaded() {
    notify(&[NotifyState::Ready]);
}

/// Reports signs of life for as long as the runtime runs tasks (`WATCHDOG_USEC`). A slow disk does
/// not delay them: a restart would make it no faster, and leaders outlive few restarts.
pub(super) fn start_watchdog() {
    let Some(interval) = sd_notify::watchdog_enabled().and_then(interval) else {
        return;
    };
    tokio::spawn(async move {
        let mut interval = tokio::time::interval(interval);
        loop {
            interval.tick().await;
            notify(&[NotifyState::Watchdog]);
        }
    });
}

/// The time between two signs of life, for the time after which systemd acts.
fn interval(timeout: Duration) -> Option<Duration> {
    let interval = timeout / SIGNS_OF_LIFE;
    (!interval.is_zero()).then_some(interval)
}

fn notify(state: &[NotifyState<'_>]) {
    // The service goes on; systemd acts if a report that it needs is missing.
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "can't report to systemd by NOTIFY_SOCKET");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_life_is_given_before_the_watchdog_acts() {
        assert_eq!(
            interval(Duration::from_secs(30)),
            Some(Duration::from_secs(10))
        );
        assert_eq!(interval(Duration::ZERO), None);
    }
}

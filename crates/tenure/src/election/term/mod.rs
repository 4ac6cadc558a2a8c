//! The state of a running term, shared by its driver and its task.

pub(crate) mod guard;
mod handle;
pub(crate) mod parts;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tenure_core::lease::candidate::EndReason;
use tenure_core::{Epoch, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::base::clock::Clock;
#[cfg(feature = "peers")]
use crate::base::term::TermQuorum;
use crate::config::Config;

pub(crate) use handle::{Campaigner, Command, DriverHandle, Proclaimer, TermCommand};
use parts::Parts;

/// A running term. The driver writes the state. The task and its helpers read it on any thread. No
/// side blocks the other.
#[derive(Debug)]
pub(crate) struct TermState {
    pub(crate) epoch: Epoch,
    /// The `traceparent` of the beginning of the term.
    pub(crate) traceparent: Option<String>,
    pub(crate) config: Arc<Config>,
    clock: Clock,
    /// For commands. The term does not keep its candidate alive.
    driver: Weak<DriverHandle>,
    /// The time until which the term is valid, in nanoseconds of the clock; 0 if the term is lost.
    pub(crate) valid_until: AtomicU64,
    /// The time at which the task is aborted at the latest, in nanoseconds of the clock.
    pub(crate) stop_by: AtomicU64,
    /// The time at which work of the term is an overrun, in nanoseconds of the clock. It stays when
    /// the driver dies, because the lease then expires.
    pub(crate) overrun_at: AtomicU64,
    /// The time of the task's last progress report, in nanoseconds of the clock.
    progress: AtomicU64,
    /// Cancelled when the task must stop.
    pub(crate) lost: CancellationToken,
    pub(crate) reason: OnceLock<EndReason>,
    pub(crate) at_risk: watch::Sender<bool>,
    /// The voters that carry the term, with a fallback.
    #[cfg(feature = "peers")]
    pub(crate) quorum: watch::Sender<Option<TermQuorum>>,
    /// Set when the term is over and the lease is released.
    pub(crate) ended: watch::Sender<Option<EndReason>>,
    /// Cancelled when the task is aborted.
    pub(crate) aborted: CancellationToken,
    /// The parts of the task that have not ended.
    pub(crate) parts: Parts,
    /// The metadata that the leader has published in this term.
    pub(crate) proclaimed: watch::Sender<Option<BTreeMap<String, String>>>,
}

impl TermState {
    pub(crate) fn new(
        epoch: Epoch,
        traceparent: Option<String>,
        config: Arc<Config>,
        clock: Clock,
        driver: Weak<DriverHandle>,
    ) -> Self {
        Self {
            epoch,
            traceparent,
            config,
            progress: AtomicU64::new(clock.now().as_nanos()),
            clock,
            driver,
            valid_until: AtomicU64::new(0),
            stop_by: AtomicU64::new(0),
            overrun_at: AtomicU64::new(u64::MAX),
            lost: CancellationToken::new(),
            reason: OnceLock::new(),
            at_risk: watch::Sender::new(false),
            #[cfg(feature = "peers")]
            quorum: watch::Sender::default(),
            ended: watch::Sender::new(None),
            aborted: CancellationToken::new(),
            parts: Parts::default(),
            proclaimed: watch::Sender::default(),
        }
    }

    /// Sends a command for this term. Returns false if its candidate or the driver has ended.
    pub(crate) fn command(&self, command: TermCommand) -> bool {
        let driver = self.driver.upgrade();
        driver.is_some_and(|driver| driver.command(Command::Term(self.epoch, command)))
    }

    /// Updates the state of the term after each step of the machine.
    pub(crate) fn update(&self, valid_until: Option<Instant>, stop_by: Option<Instant>) {
        let nanos = |instant: Option<Instant>| instant.map_or(0, Instant::as_nanos);
        // This store and its matching load use Release and Acquire, so a reader that sees a new end
        // of validity also sees the abort time that belongs to it.
        self.stop_by.store(nanos(stop_by), Ordering::Release);
        self.valid_until
            .store(nanos(valid_until), Ordering::Release);
    }

    /// Updates the time at which work of the term is an overrun.
    pub(crate) fn set_overrun_at(&self, overrun_at: Option<Instant>) {
        let nanos = overrun_at.map_or(u64::MAX, Instant::as_nanos);
        self.overrun_at.store(nanos, Ordering::Release);
    }

    /// Returns the time until `deadline`, which is one of the times of this term.
    pub(crate) fn until(&self, deadline: &AtomicU64) -> Duration {
        Instant::from_nanos(deadline.load(Ordering::Acquire)).since(self.clock.now())
    }

    pub(crate) fn report_progress(&self) {
        let now = self.clock.now().as_nanos();
        self.progress.fetch_max(now, Ordering::Relaxed);
    }

    pub(crate) fn progress(&self) -> Instant {
        Instant::from_nanos(self.progress.load(Ordering::Relaxed))
    }

    pub(crate) fn cancel(&self, reason: EndReason) {
        let _ = self.reason.set(reason);
        self.lost.cancel();
    }

    /// Ends the term at once, if the driver can't continue and does not renew any more.
    pub(crate) fn abandon(&self) {
        self.update(None, None);
        self.cancel(EndReason::RenewDeadline);
        self.aborted.cancel();
        self.ended.send_replace(Some(EndReason::RenewDeadline));
    }
}

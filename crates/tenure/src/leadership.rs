//! What a leader's task holds in its hands.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::lease::keeper::EndReason;
use tenure_core::{CandidateId, ElectionName, Epoch};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::config::Config;
use crate::driver::{Command, DriverHandle, WeakDriverHandle};
use crate::term::TermState;

/// A term, in the hands of its task. Clones are cheap and all speak of the same term. One that is
/// kept after the term says for ever that it is over; it keeps neither the lease nor the candidate.
#[derive(Clone, Debug)]
pub struct Leadership {
    pub(crate) term: Arc<TermState>,
    config: Arc<Config>,
    driver: WeakDriverHandle,
}

impl Leadership {
    pub(crate) fn new(term: Arc<TermState>, driver: &DriverHandle) -> Self {
        Self {
            term,
            config: driver.config.clone(),
            driver: driver.downgrade(),
        }
    }

    /// The term's number: **the fencing token**. Give it along with every write, to a receiver that
    /// refuses a smaller one than it has seen.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.term.epoch
    }

    /// The election that is led.
    #[must_use]
    pub fn election(&self) -> &ElectionName {
        &self.config.election
    }

    /// The candidate that leads.
    #[must_use]
    pub fn candidate(&self) -> &CandidateId {
        &self.config.candidate
    }

    /// Whether this process leads *now*: it compares two numbers, without asking anyone. Ask before
    /// every unit of work; a yes from before a pause means nothing.
    ///
    /// It says whether the lease is held, not whether the task may go on: after the candidate has
    /// resigned, or is shutting down, it still says yes while the task stops, because the lease is
    /// renewed until the task has ended. That is the time to finish a unit of work, or to write down
    /// where it stopped. Whether to stop is what [`lost`](Self::lost) says.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        clock::now() < self.term.valid_until()
    }

    /// The epoch, if this process leads now.
    ///
    /// # Errors
    ///
    /// [`NotLeading`] if the term is over; stop working.
    pub fn check(&self) -> Result<Epoch, NotLeading> {
        if self.is_valid() {
            Ok(self.epoch())
        } else {
            Err(NotLeading(self.epoch()))
        }
    }

    /// For how long this process still leads if no renewal succeeds any more.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.term.valid_until().since(clock::now())
    }

    /// How long the task has until it is aborted, as things stand: each renewal that succeeds
    /// moves it, until the term is ending.
    #[must_use]
    pub fn time_to_stop(&self) -> Duration {
        self.term.stop_by().since(clock::now())
    }

    /// Whether renewals are failing now. The term may still be saved.
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        *self.term.at_risk.borrow()
    }

    /// Waits until renewals are failing, or the task is to stop anyway: a good moment to begin
    /// nothing new.
    pub async fn at_risk(&self) {
        let mut at_risk = self.term.at_risk.subscribe();
        tokio::select! {
            // The sender lives in the term, which `self` keeps.
            _ = at_risk.wait_for(|at_risk| *at_risk) => {}
            () = self.term.lost.cancelled() => {}
        }
    }

    /// Waits until the task is to stop, and says why. From then on it has the stop grace.
    pub async fn lost(&self) -> EndReason {
        self.term.lost.cancelled().await;
        self.term.reason().unwrap_or(EndReason::Resigned)
    }

    /// The token that is cancelled when the task is to stop, to hand to what the task starts.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.term.lost.child_token()
    }

    /// Asks to end the term: the task is told to stop, and the lease is released after it. The next
    /// candidate that waits is granted it. Without effect after the term.
    pub fn resign(&self) {
        self.end(EndReason::Resigned);
    }

    pub(crate) fn end(&self, reason: EndReason) {
        let term = self.epoch();
        self.driver.command(Command::Resign { term, reason });
    }
}

/// The term is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the term of epoch {0} is over")]
pub struct NotLeading(pub Epoch);

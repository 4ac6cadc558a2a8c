//! What a leader's task holds in its hands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::lease::candidate::EndReason;
use tenure_core::wire::MAX_METADATA_BYTES;
use tenure_core::{CandidateId, ElectionName, Epoch};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::runtime::{Command, DriverHandle, WeakDriverHandle};
use crate::store::StoreError;
use crate::term::TermState;

/// A term, in the hands of its task. Clones are cheap and all speak of the same term. One that is
/// kept after the term says for ever that it is over; it keeps neither the lease nor the candidate.
#[derive(Clone, Debug)]
pub struct Leadership {
    pub(crate) term: Arc<TermState>,
    driver: WeakDriverHandle,
}

impl Leadership {
    pub(crate) fn new(term: Arc<TermState>, driver: &DriverHandle) -> Self {
        Self {
            term,
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
        &self.driver.config.election
    }

    /// The candidate that leads.
    #[must_use]
    pub fn candidate(&self) -> &CandidateId {
        &self.driver.config.candidate
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
        !self.remaining().is_zero()
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
        self.term.remaining()
    }

    /// How long the task has until it is aborted, as things stand: each renewal that succeeds
    /// moves it, until the term is ending.
    #[must_use]
    pub fn time_to_stop(&self) -> Duration {
        self.term.time_to_stop()
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

    /// Like [`resign`](Self::resign), but for a lease duration nobody but `to` is granted. If that
    /// candidate does not come, the next one is. The lease of a blob
    /// ([`Strategy::AzureBlob`](crate::config::Strategy::AzureBlob)) can't be handed over: then the term goes
    /// on, and the log says why.
    pub fn hand_over(&self, to: CandidateId) {
        self.driver.command(Command::HandOver {
            term: self.epoch(),
            to,
        });
    }

    /// Says this about the leader, for everybody to see ([`Observed`](crate::observe::Observed)), in
    /// place of what was said before: up to 4 KiB of keys and values. It holds for this term. Among peers
    /// this does not wait until the others know it: it is sent at once, and with each renewal again.
    ///
    /// # Errors
    ///
    /// [`ProclaimError`]: the term is over, it is too much, or the store did not take it. The term goes on
    /// but in the first case.
    pub async fn proclaim(&self, metadata: BTreeMap<String, String>) -> Result<(), ProclaimError> {
        check_metadata(&metadata).map_err(ProclaimError::Metadata)?;
        let (done, proclaimed) = oneshot::channel();
        let over = ProclaimError::NotLeading(NotLeading(self.epoch()));
        if !self.driver.command(Command::Proclaim {
            term: self.epoch(),
            metadata: metadata.clone(),
            done,
        }) {
            return Err(over);
        }
        match proclaimed.await {
            Ok(Some(answer)) => answer?,
            Ok(None) | Err(_) => return Err(over),
        }
        self.term.set_proclaimed(metadata);
        Ok(())
    }

    /// Shows that the task gets on. With a progress deadline in the [`Timings`](crate::Timings) a task
    /// that does not say so in time is taken to hang, and its term ends. It costs an atomic write.
    pub fn report_progress(&self) {
        self.term.report_progress();
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

/// Why a proclamation has not arrived.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProclaimError {
    /// The term is over; nothing was sent.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// It is more than 4 KiB, or, among peers, more than fits into a message as JSON. Nothing was sent; what
    /// was said before holds. A store may take less (`max_metadata_bytes`): then it says so,
    /// [`Code::TooLarge`](crate::store::Code::TooLarge) in a [`StoreError::Problem`].
    #[error("{0}")]
    Metadata(String),
    /// The store did not take it, or did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether a leader may say this about itself, whichever way it is elected.
pub(crate) fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), String> {
    let parts = metadata.iter().map(|(key, text)| key.len() + text.len());
    let bytes: usize = parts.sum();
    if bytes > MAX_METADATA_BYTES {
        return Err(format!(
            "the metadata have {bytes} bytes, at most {MAX_METADATA_BYTES} are taken"
        ));
    }
    Ok(())
}

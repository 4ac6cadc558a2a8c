//! The handle of a leader's task to its term.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::lease::candidate::EndReason;
use tenure_core::wire::MAX_METADATA_BYTES;
use tenure_core::{CandidateId, ElectionName, Epoch};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::backend::BackendError;
use crate::runtime::TermCommand;
use crate::term::TermState;

/// A handle to a term, for its task. Clones are cheap and refer to the same term. A handle that
/// outlives the term reports for ever that it is over; it keeps neither the lease nor the
/// candidate.
#[derive(Clone, Debug)]
pub struct Leadership {
    pub(crate) term: Arc<TermState>,
}

impl Leadership {
    /// The term's number: **the fencing token**. Send it with every write, to a receiver that
    /// refuses a smaller number than it has seen.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.term.epoch
    }

    /// The election that the candidate leads.
    #[must_use]
    pub fn election(&self) -> &ElectionName {
        &self.term.config.election
    }

    /// The candidate that leads.
    #[must_use]
    pub fn candidate(&self) -> &CandidateId {
        &self.term.config.candidate
    }

    /// Whether this process leads *now*. It compares two numbers and asks no other process. Check
    /// before every unit of work: the result from before a pause means nothing.
    ///
    /// It tells whether the lease is held, not whether the task may go on. After the candidate has
    /// resigned, or while it shuts down, it stays true while the task stops, because the lease is
    /// renewed until the task has ended. That is the time to finish a unit of work, or to record
    /// where it stopped. [`lost`](Self::lost) tells when to stop.
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

    /// How long this process still leads if no further renewal succeeds.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.term.until(&self.term.valid_until)
    }

    /// How long the task has until it is aborted. Each renewal that succeeds moves that, until the
    /// term is ending.
    #[must_use]
    pub fn time_to_stop(&self) -> Duration {
        self.term.until(&self.term.stop_by)
    }

    /// Whether renewals are failing now. The term may still be saved.
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        *self.term.at_risk.borrow()
    }

    /// Waits until renewals are failing, or the task must stop anyway: a good moment to start no
    /// new work.
    pub async fn at_risk(&self) {
        let mut at_risk = self.term.at_risk.subscribe();
        tokio::select! {
            // The sender lives in the term, which `self` keeps.
            _ = at_risk.wait_for(|at_risk| *at_risk) => {}
            () = self.term.lost.cancelled() => {}
        }
    }

    /// Waits until the task must stop, and returns the reason. From then on the task has the stop
    /// grace.
    pub async fn lost(&self) -> EndReason {
        self.term.lost.cancelled().await;
        *self.term.reason.get().unwrap_or(&EndReason::Resigned)
    }

    /// A token that is cancelled when the task must stop, for the parts that the task starts.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.term.lost.child_token()
    }

    /// Asks to end the term: the task is notified, and the lease is released when the task has ended.
    /// The store then grants the lease to the next waiter. Without effect after the term.
    pub fn resign(&self) {
        self.end(EndReason::Resigned);
    }

    /// Like [`resign`](Self::resign), but for a lease duration the lease goes only to `to`. If that
    /// candidate does not come, the next one gets it. The lease of a blob
    /// ([`Strategy::AzureBlob`](crate::config::Strategy::AzureBlob)) can't be handed over: then the
    /// term goes on, and the log says why.
    pub fn hand_over(&self, to: CandidateId) {
        self.term.command(TermCommand::HandOver(to));
    }

    /// Publishes these metadata of the leader to all observers
    /// ([`Observed`](crate::observe::Observed)), in place of earlier ones: up to 4 KiB of keys and
    /// values. They hold for this term. Among peers this does not wait until the others know them:
    /// they are sent at once, and again with each renewal.
    ///
    /// # Errors
    ///
    /// [`ProclaimError`]: the term is over, the metadata are too large, or the store did not take
    /// them. Except in the first case the term goes on.
    pub async fn proclaim(&self, metadata: BTreeMap<String, String>) -> Result<(), ProclaimError> {
        check_metadata(&metadata).map_err(ProclaimError::Metadata)?;
        let (done, proclaimed) = oneshot::channel();
        let over = ProclaimError::NotLeading(NotLeading(self.epoch()));
        let command = TermCommand::Proclaim(metadata.clone(), done);
        if !self.term.command(command) {
            return Err(over);
        }
        proclaimed.await.unwrap_or(Err(over))?;
        self.term.proclaimed.send_replace(Some(metadata));
        Ok(())
    }

    /// Reports progress of the task. With a progress deadline in the [`Timings`](crate::Timings), a
    /// task that does not report in time counts as hanging, and its term ends. It costs an atomic
    /// write.
    pub fn report_progress(&self) {
        self.term.report_progress();
    }

    pub(crate) fn end(&self, reason: EndReason) {
        self.term.command(TermCommand::Resign(reason));
    }
}

/// The term is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the term of epoch {0} is over")]
pub struct NotLeading(pub Epoch);

/// Why metadata were not published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProclaimError {
    /// The term is over; nothing was sent.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// The metadata have more than 4 KiB, or, among peers, do not fit into a message as JSON. Nothing
    /// was sent; the earlier metadata hold. A store may allow less (`max_metadata_bytes`) and refuse
    /// with [`Code::TooLarge`](crate::store::Code::TooLarge).
    #[error("{0}")]
    Metadata(String),
    /// The lease service refused the metadata, or did not answer.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// Checks that a leader may publish these metadata, whatever its strategy.
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

//! The right to answer, once a revision is durable.

use tokio::sync::watch;

use super::CommitFailure;

/// The outcome of a batch; `None` until it is known. Each batch has its own channel, so that a commit
/// wakes only the requests that wait for it.
pub(super) type Outcome = watch::Sender<Option<Result<(), CommitFailure>>>;

/// The right to answer, once a revision is durable.
#[derive(Clone, Debug)]
pub(crate) struct Ticket(pub(super) watch::Receiver<Option<Result<(), CommitFailure>>>);

impl Ticket {
    /// Waits until the revision is durable.
    ///
    /// # Errors
    ///
    /// [`CommitFailure`]: it never will be, and what the request saw is no longer so.
    pub(crate) async fn durable(mut self) -> Result<(), CommitFailure> {
        match self.0.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.unwrap_or(Err(CommitFailure::Failed)),
            // The queue is gone and has not said that the revision is durable.
            Err(_) => Err(CommitFailure::Failed),
        }
    }
}

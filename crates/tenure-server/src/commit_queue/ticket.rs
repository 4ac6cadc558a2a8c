//! The permission to answer once a revision is durable.

use tokio::sync::watch;

use super::CommitFailure;

/// The outcome of a batch; `None` until it is known. Each batch has its own channel, so that a
/// commit wakes only the requests that wait for it.
pub(super) type Outcome = watch::Sender<Option<Result<(), CommitFailure>>>;

/// The permission to answer once a revision is durable.
#[derive(Clone, Debug)]
pub(crate) struct Ticket(pub(super) watch::Receiver<Option<Result<(), CommitFailure>>>);

impl Ticket {
    /// Waits until the revision is durable.
    ///
    /// # Errors
    ///
    /// [`CommitFailure`]: the revision never becomes durable, and the state that the request saw no
    /// longer exists.
    pub(crate) async fn durable(mut self) -> Result<(), CommitFailure> {
        match self.0.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.unwrap_or(Err(CommitFailure::Failed)),
            // The queue was dropped before the revision was durable.
            Err(_) => Err(CommitFailure::Failed),
        }
    }
}

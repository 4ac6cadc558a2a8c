//! The interface of an engine: a log of batches.
//!
//! An append is acknowledged when its batch is in the log. Upkeep lets the log become shorter again, by
//! snapshots.

use std::time::Duration;

use super::Batch;
use crate::model::ChangeSet;

/// A log of batches. The log was loaded, and this process owns it. Calls
/// block; a single thread makes them.
pub(crate) trait Log: Send {
    /// Appends a batch, which has the changes of these sets. The log refuses a batch that does not
    /// follow its last batch. If this returns `Ok`, the whole batch is durable.
    ///
    /// # Errors
    ///
    /// [`AppendError`] says whether the log contains the batch.
    fn append(&mut self, batch: &Batch, sets: &[ChangeSet]) -> Result<(), AppendError>;

    /// Shows that this process still owns the log: appends something without a batch. The owner of a
    /// data directory has nothing to show.
    ///
    /// # Errors
    ///
    /// Those of [`Log::append`].
    fn confirm(&mut self) -> Result<(), AppendError>;

    /// Does the work that keeps the log short, and what else is due. It is called after each append,
    /// when the answers have left, and when [`Log::upkeep_within`] has passed.
    ///
    /// # Errors
    ///
    /// Those of [`Log::append`]; appended batches stay durable. A failure that may be temporary is
    /// not an error.
    fn upkeep(&mut self) -> Result<(), AppendError>;

    /// Returns the longest time after which [`Log::upkeep`] must be called, even if there is nothing to
    /// append. Returns `None` if it need not be.
    fn upkeep_within(&self) -> Option<Duration> {
        None
    }

    /// Closes the log, so that the next start is quick. Appended batches are durable even without
    /// this call.
    ///
    /// # Errors
    ///
    /// The log can't be written or synced; the operator must be notified.
    fn close(&mut self) -> Result<(), AppendError>;
}

/// The reason why a batch was not appended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppendError {
    /// There is no disk space. The log does not contain the batch; a later append may succeed.
    #[error("the disk is full: {0}")]
    DiskFull(String),
    /// Another program has the log locked, or its service refused the batch. The log does not contain
    /// the batch; a later append may succeed.
    #[error("{0}")]
    Busy(String),
    /// Another server appended to the log. This server must not append again. If an earlier attempt
    /// had an unknown outcome, the log of the other server may contain the batch.
    #[error("this server no longer owns the log: {0}")]
    NotOwner(String),
    /// It is unknown whether the log contains the batch. Nothing more may be appended: after a
    /// failed fsync the operating system may have dropped the data that it could not write, and the
    /// next fsync does not report that.
    #[error("{0}")]
    Unknown(String),
}

impl AppendError {
    /// Returns whether a later append may succeed. If not, the store must end.
    pub(crate) const fn is_transient(&self) -> bool {
        matches!(self, Self::DiskFull(_) | Self::Busy(_))
    }
}

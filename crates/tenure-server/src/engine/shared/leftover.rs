//! The content of a log that has lost its head.

use super::log::{LogError, PlaceRange, SharedLog};
use super::places::{KINDS, all, lease_ranges};
use super::recover::RecoverError;

/// The reason why a log without a head is not a new one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the log has no head, but the entry {0}: the head was deleted, or another program writes there. \
     A new head would begin another store, which grants epochs a second time: restore a backup into \
     an empty prefix, schema or cluster name"
)]
pub(super) struct Leftover(String);

impl Leftover {
    /// Returns what is left, for a command that needs an empty log.
    pub(super) fn entry(&self) -> String {
        format!("the log has no head, but the entry {}", self.0)
    }
}

/// Returns the reason why a command can't use a log without a head.
pub(super) fn without_head(log: &mut dyn SharedLog) -> RecoverError {
    match leftover(log) {
        Ok(None) => RecoverError::Empty,
        Ok(Some(leftover)) => RecoverError::Damaged(leftover.to_string()),
        Err(error) => error.into(),
    }
}

/// Returns an entry of a log that has no head; `None` if the log is empty.
pub(super) fn leftover(log: &mut dyn SharedLog) -> Result<Option<Leftover>, LogError> {
    if let Some(batch) = log.batches(0)?.first() {
        return Ok(Some(Leftover(format!("log/{}", batch.sequence))));
    }
    for kind in KINDS {
        let range = PlaceRange {
            most: 1,
            ..all(kind, None)
        };
        if let Some(place) = log.places(&range)?.into_iter().next() {
            return Ok(Some(Leftover(place.key)));
        }
    }
    // Each address is asked once: one of another service is noticed before the first head is written,
    // if it answers.
    for page in log.pages(&lease_ranges(log.ranges(0))) {
        if let Err(error @ LogError::Misconfigured(_)) = page {
            return Err(error);
        }
    }
    Ok(None)
}

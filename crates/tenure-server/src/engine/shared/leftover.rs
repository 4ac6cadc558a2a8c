//! The content of a log that has lost its head.

use super::log::{LogError, PlaceRange, SharedLog};
use super::places::{KINDS, all, lease_ranges};

/// The reason why a log without a head is not a new one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the log has no head, but the entry {0}: the head was deleted, or another program writes there. \
     A new head would begin another store, which grants epochs a second time: restore a backup into \
     an empty prefix, schema or cluster name"
)]
pub(super) struct Leftover(String);

/// Returns an entry of a log that has no head; `None` if the log is empty.
pub(super) fn leftover(log: &mut dyn SharedLog) -> Result<Option<Leftover>, LogError> {
    let batch = log.batches(0)?.first().map(|it| it.sequence.to_string());
    let mut found = batch.map(|sequence| format!("log/{sequence}"));
    for kind in KINDS {
        let range = PlaceRange {
            most: 1,
            ..all(kind, None)
        };
        let first = log.places(&range)?.into_iter().next();
        found = found.or_else(|| first.map(|place| place.key));
    }
    // Each member of the service is asked once: an address of another service is noticed before the
    // first head is written.
    for page in log.pages(&lease_ranges(log.ranges(0))) {
        page?;
    }
    Ok(found.map(Leftover))
}

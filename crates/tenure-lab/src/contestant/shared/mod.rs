//! A store of several servers over a log that they share.
//!
//! As in an engine of a cluster, the lease is in two parts of the log: in its *place* as of an earlier
//! change, and in the *batches* since then. The owner writes each change in a batch, and later writes
//! the place. A server that loads applies the batches to the place.

mod log;
mod server;

use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::lease::Stored;
use tenure_core::lease::candidate::Timings;
use tenure_core::ownership::{Found, Head, Outcome, OwnershipTimings, Sighting};

pub(super) use log::Log;
pub(super) use server::Server;

/// The hosts of the servers. The host of the log is that of the store.
pub(crate) const SERVERS: [NodeId; 3] = [NodeId(101), NodeId(102), NodeId(103)];

/// The shortest ownership duration.
const SHORTEST: Duration = Duration::from_secs(1);

/// Returns the timings of the servers. Their ownership lasts for a fifth of a lease, as by default,
/// so that leaders keep their terms while another server takes over.
pub(super) fn ownership_timings(term: &Timings) -> OwnershipTimings {
    let ownership = (term.lease_duration() / 5).max(SHORTEST);
    OwnershipTimings::new(ownership).expect("a fifth of a lease that was checked")
}

/// The largest number of batches that the log keeps although the place has them. When there are
/// more, it removes all of them. So a server that loads finds some of these batches, or none.
const KEPT: usize = 2;

/// The content of a log: its head, and the lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// The head; `None` if the log is empty.
    pub head: Option<Head>,
    /// The last change that the place has.
    pub place: Option<LogChange>,
    /// The changes in batches, oldest first: all that the place lacks, and some that it has.
    pub batches: Vec<LogChange>,
}

/// A change of the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChange {
    /// Its number. A change that was undone and the next one have the same number.
    pub revision: u64,
    /// A number that no other change has.
    pub id: u64,
    /// The lease after the change.
    pub lease: Box<Stored>,
}

/// A call of a server to the log.
#[derive(Clone, Debug)]
pub enum LogCall {
    /// Read the head and the content.
    Read,
    /// Replace the head, if it is the expected one.
    Append(LogAppend),
}

/// An append.
#[derive(Clone, Debug)]
pub struct LogAppend {
    /// The head that it replaces.
    pub expected: Option<Head>,
    /// The new head.
    pub head: Head,
    /// The batch or the place that it writes; `None` if it writes only the head.
    pub write: Option<LogWrite>,
}

/// The content of an append.
#[derive(Clone, Debug)]
pub enum LogWrite {
    /// A batch with this change.
    Batch(LogChange),
    /// The place as of this change, which an earlier append had in its batch.
    Place(LogChange),
}

/// The answer of the log to a call.
#[derive(Clone, Debug)]
pub enum LogAnswer {
    /// The content.
    Content(LogState),
    /// The outcome of an append.
    Appended(Outcome),
}

impl LogState {
    fn sighting(&self) -> Sighting {
        Sighting {
            engine: log::ENGINE,
            found: self.head.map_or(Found::Empty, Found::Head),
        }
    }

    /// Applies an append.
    fn append(&mut self, append: LogAppend) {
        self.head = Some(append.head);
        match append.write {
            Some(LogWrite::Batch(change)) => self.batches.push(change),
            Some(LogWrite::Place(change)) => self.place = Some(change),
            None => {}
        }
        let placed = self.placed();
        let batches = self.batches.iter();
        let kept = batches.take_while(|it| it.revision <= placed).count();
        if kept > KEPT {
            self.batches.drain(..kept);
        }
    }

    /// Returns the revision of the last change that the place has.
    fn placed(&self) -> u64 {
        self.place.as_ref().map_or(0, |it| it.revision)
    }

    /// Returns the last change: that of the last batch that the place lacks, or else that of the
    /// place. A change contains the whole lease, so the changes before it don't matter.
    fn last(self) -> Option<LogChange> {
        let placed = self.placed();
        let mut batches = self.batches.into_iter();
        batches.rfind(|it| it.revision > placed).or(self.place)
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::Instant;
    use tenure_core::lease::Record;
    use tenure_core::ownership::{HeadState, OwnerId};

    use super::LogWrite::{Batch, Place};
    use super::*;

    fn append(state: &mut LogState, write: fn(LogChange) -> LogWrite, revision: u64) {
        let lease = Record::default().store(Instant::default()).into();
        let change = LogChange {
            revision,
            id: revision,
            lease,
        };
        let head = Head {
            engine: log::ENGINE,
            generation: 1,
            sequence: state.head.map_or(1, |it| it.sequence + 1),
            undone: 0,
            state: HeadState::Owned,
            owner: OwnerId(1),
            ownership: SHORTEST,
        };
        state.append(LogAppend {
            expected: state.head,
            head,
            write: Some(write(change)),
        });
    }

    fn revisions(state: &LogState) -> (u64, Vec<u64>, Option<u64>) {
        let batches = state.batches.iter().map(|it| it.revision).collect();
        let last = state.clone().last().map(|it| it.revision);
        (state.placed(), batches, last)
    }

    #[test]
    fn a_load_has_the_last_change_and_the_log_removes_only_what_the_place_has() {
        let mut state = LogState::default();
        assert_eq!(revisions(&state), (0, vec![], None));
        append(&mut state, Batch, 1);
        append(&mut state, Batch, 2);
        assert_eq!(revisions(&state), (0, vec![1, 2], Some(2)));
        append(&mut state, Place, 2);
        assert_eq!(revisions(&state), (2, vec![1, 2], Some(2)));
        append(&mut state, Batch, 3);
        append(&mut state, Batch, 4);
        assert_eq!(revisions(&state), (2, vec![1, 2, 3, 4], Some(4)));
        append(&mut state, Place, 3);
        assert_eq!(revisions(&state), (3, vec![4], Some(4)));
        append(&mut state, Place, 4);
        append(&mut state, Batch, 5);
        append(&mut state, Batch, 6);
        append(&mut state, Place, 6);
        assert_eq!(revisions(&state), (6, vec![], Some(6)));
    }
}

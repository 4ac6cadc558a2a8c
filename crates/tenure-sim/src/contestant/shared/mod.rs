//! A store of several servers over a log that they share.
//!
//! As in an engine of a cluster, the lease is in two parts of the log: in its *place* as of an earlier
//! change, and in the *batches* since then. The owner writes each change in a batch, and later writes
//! the place. A standby copies batches. A server that loads applies them, and those that the log has,
//! to the place.

mod log;
mod server;

use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::lease::Stored;
use tenure_core::lease::candidate::Timings;
use tenure_core::ownership::{AppendOutcome, Found, Observation, OwnershipTimings, Tail};

pub(super) use log::Log;
pub(super) use server::Server;

/// The hosts of the servers. The host of the log is that of the store.
pub const SERVERS: [NodeId; 3] = [NodeId(101), NodeId(102), NodeId(103)];

/// The shortest ownership duration.
const SHORTEST: Duration = Duration::from_secs(1);

/// Returns the timings of the servers. Their ownership lasts for a fifth of a lease, as by default,
/// so that leaders keep their terms while another server takes over.
pub(super) fn ownership_timings(term: &Timings) -> OwnershipTimings {
    let ownership = (term.lease_duration() / 5).max(SHORTEST);
    OwnershipTimings::new(ownership).expect("a fifth of a lease that was checked")
}

/// The content of a log: its head, and the lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// The head; `None` if the log is empty.
    pub head: Option<Tail>,
    /// The last change that the place has.
    pub place: Option<LogChange>,
    /// The changes that the place lacks, each in a batch, oldest first.
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
    pub expected: Option<Tail>,
    /// The new head.
    pub head: Tail,
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
    Appended(AppendOutcome),
}

impl LogState {
    fn observation(&self) -> Observation {
        Observation {
            home: log::HOME,
            found: self.head.map_or(Found::Empty, Found::Tail),
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
        self.batches.retain(|it| it.revision > placed);
    }

    /// Returns the revision of the last change that the place has.
    fn placed(&self) -> u64 {
        self.place.as_ref().map_or(0, |it| it.revision)
    }

    /// Returns the last change, for a server that has copied this batch earlier. The batch may be
    /// older than the place by now, so only later changes than that of the place count.
    fn load(self, copied: Option<LogChange>) -> Option<LogChange> {
        let mut last = self.place;
        for change in copied.into_iter().chain(self.batches) {
            if last.as_ref().is_none_or(|it| it.revision < change.revision) {
                last = Some(change);
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::Instant;
    use tenure_core::lease::Record;
    use tenure_core::ownership::{OwnerId, TailState};

    use super::LogWrite::{Batch, Place};
    use super::*;

    fn append(state: &mut LogState, write: fn(LogChange) -> LogWrite, revision: u64) {
        let lease = Record::default().store(Instant::default()).into();
        let change = LogChange {
            revision,
            id: revision,
            lease,
        };
        let head = Tail {
            home: log::HOME,
            generation: 1,
            sequence: state.head.map_or(1, |it| it.sequence + 1),
            undone: 0,
            state: TailState::Owned,
            owner: OwnerId(1),
            ownership: SHORTEST,
        };
        state.append(LogAppend {
            expected: state.head,
            head,
            write: Some(write(change)),
        });
    }

    fn revisions(state: &LogState) -> (u64, Vec<u64>) {
        let batches = state.batches.iter().map(|it| it.revision).collect();
        (state.placed(), batches)
    }

    fn loaded(state: &LogState, copied: Option<&LogChange>) -> u64 {
        let loaded = state.clone().load(copied.cloned());
        loaded.map_or(0, |it| it.revision)
    }

    #[test]
    fn a_load_has_the_last_change_and_the_log_removes_only_what_the_place_has() {
        let mut state = LogState::default();
        append(&mut state, Batch, 1);
        append(&mut state, Batch, 2);
        assert_eq!(revisions(&state), (0, vec![1, 2]));
        let copied = state.batches.first().cloned();
        append(&mut state, Place, 2);
        assert_eq!(revisions(&state), (2, vec![]));
        assert_eq!(loaded(&state, None), 2);
        assert_eq!(loaded(&state, copied.as_ref()), 2);
        append(&mut state, Batch, 3);
        append(&mut state, Batch, 4);
        append(&mut state, Place, 3);
        assert_eq!(revisions(&state), (3, vec![4]));
        assert_eq!(loaded(&state, copied.as_ref()), 4);
    }
}

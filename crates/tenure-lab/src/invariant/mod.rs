//! What must be so in every history, one file each. Each has a made-up history that breaks it as a
//! test, so that the check is known to bite.

mod agreement;
mod epochs_grow;
mod fenced;
mod greatest_epoch;
mod lease_kept;
mod one_leader;
mod one_opinion;
mod one_task;
mod one_term_per_id;
mod progress;
mod steady;
mod valid_term;

use std::fmt;
use std::time::Duration;

use crate::sim::{HistoryEvent, Time};

/// What a contestant promises in a climate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// One leader and one task at a time.
    pub one_leader: bool,
    /// Terms whose numbers grow.
    pub epochs: bool,
    /// One leader in the eyes of all who see one.
    pub one_opinion: bool,
    /// Who leads when the first fault happens goes on leading through all of them.
    pub steady: bool,
    /// How long after the last fault somebody leads, and all know it.
    pub settles_within: Duration,
}

/// Something that was promised and is not so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant.
    pub invariant: &'static str,
    /// When.
    pub at: Time,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} s: {}", self.invariant, self.at, self.what)
    }
}

/// Something that must be so.
#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    /// Its name.
    pub name: &'static str,
    needs: Needs,
    check: Check,
}

/// Who promises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Everybody.
    Nothing,
    /// Who promises one leader at a time.
    OneLeader,
    /// Who numbers terms.
    Epochs,
    /// Who lets nobody see a leader who is none any more.
    OneOpinion,
    /// Whoever is not harmed.
    Steadiness,
}

type Check = fn(&[HistoryEvent], &Promises) -> Result<(), (Time, String)>;

/// All of them.
pub const ALL: &[Invariant] = &[
    Invariant {
        name: "one leader at a time",
        needs: Needs::OneLeader,
        check: one_leader::check,
    },
    Invariant {
        name: "one task at a time",
        needs: Needs::OneLeader,
        check: one_task::check,
    },
    Invariant {
        name: "a task starts in a valid term",
        needs: Needs::OneLeader,
        check: valid_term::check,
    },
    Invariant {
        name: "all who see a leader see the same one",
        needs: Needs::OneOpinion,
        check: one_opinion::check,
    },
    Invariant {
        name: "a leader that is not harmed goes on leading",
        needs: Needs::Steadiness,
        check: steady::check,
    },
    Invariant {
        name: "epochs grow",
        needs: Needs::Epochs,
        check: epochs_grow::check,
    },
    Invariant {
        name: "a lease never ends early",
        needs: Needs::Nothing,
        check: lease_kept::check,
    },
    Invariant {
        name: "a lease id has one term",
        needs: Needs::Nothing,
        check: one_term_per_id::check,
    },
    Invariant {
        name: "a stale leader's write is refused",
        needs: Needs::Nothing,
        check: fenced::check,
    },
    Invariant {
        name: "somebody leads when the faults are over",
        needs: Needs::Nothing,
        check: progress::check,
    },
    Invariant {
        name: "all agree on the leader when the faults are over",
        needs: Needs::Nothing,
        check: agreement::check,
    },
    Invariant {
        name: "the leader has the greatest epoch when the faults are over",
        needs: Needs::Nothing,
        check: greatest_epoch::check,
    },
];

/// The first thing that is not as promised, if there is one.
///
/// # Errors
///
/// [`Violation`].
pub fn check(history: &[HistoryEvent], promises: &Promises) -> Result<(), Violation> {
    let broken = ALL
        .iter()
        .filter(|invariant| match invariant.needs {
            Needs::Nothing => true,
            Needs::OneLeader => promises.one_leader,
            Needs::Epochs => promises.epochs,
            Needs::OneOpinion => promises.one_opinion,
            Needs::Steadiness => promises.steady,
        })
        .filter_map(|invariant| {
            let (at, what) = (invariant.check)(history, promises).err()?;
            Some(Violation {
                invariant: invariant.name,
                at,
                what,
            })
        });
    broken
        .min_by_key(|violation| violation.at)
        .map_or(Ok(()), Err)
}

#[cfg(test)]
mod made_up {
    //! Histories made up by hand.

    use std::time::Duration;

    use tenure_core::{Epoch, NodeId};

    use super::Promises;
    use crate::sim::{EventKind, HistoryEvent, Time};

    pub(super) const PROMISES: Promises = Promises {
        one_leader: true,
        epochs: true,
        one_opinion: true,
        steady: true,
        settles_within: Duration::from_secs(30),
    };

    pub(super) fn at(secs: u64) -> Time {
        Time::after(Duration::from_secs(secs))
    }

    pub(super) fn epoch(number: u64) -> Epoch {
        Epoch::new(number).unwrap()
    }

    pub(super) fn history(
        events: impl IntoIterator<Item = (u64, u32, EventKind)>,
    ) -> Vec<HistoryEvent> {
        let event = |(secs, node, what)| HistoryEvent {
            at: at(secs),
            node: NodeId(node),
            kind: what,
        };
        events.into_iter().map(event).collect()
    }

    pub(super) fn claims(number: u64, until: u64) -> EventKind {
        EventKind::Claims(Some(epoch(number)), at(until))
    }
}

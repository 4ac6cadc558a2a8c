//! The invariants of every history, one file each. Each invariant has a test with a made-up history
//! that violates it, which shows that the check works.

mod acknowledged_loaded;
mod agreement;
mod epochs_grow;
mod fenced;
mod greatest_epoch;
mod lease_kept;
mod one_generation;
mod one_leader;
mod one_opinion;
mod one_task;
mod one_term_per_id;
mod progress;
mod steady;
mod valid_term;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tenure_core::NodeId;

use crate::sim::{HistoryEvent, HistoryEventKind, Time};

/// The guarantees of a contestant under certain faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// There is at most one leader and one task at a time.
    pub one_leader: bool,
    /// The epochs of terms increase.
    pub epochs: bool,
    /// All members that see a leader see the same one.
    pub one_opinion: bool,
    /// The leader at the first fault leads until the faults are over.
    pub steady: bool,
    /// The longest time without a leader while a quorum is connected and nothing changes, if the
    /// history tells when a quorum is connected.
    pub leads_within: Option<Duration>,
    /// The longest time from the last fault until there is a leader that all members see.
    pub settles_within: Duration,
}

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// The time of the violation.
    pub at: Time,
    /// The details.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} s: {}", self.invariant, self.at, self.what)
    }
}

/// The name of an invariant, and its check.
type Invariant = (
    &'static str,
    fn(&[HistoryEvent], &Promises) -> Result<(), (Time, String)>,
);

const ONE_LEADER: &[Invariant] = &[
    ("one leader at a time", one_leader::check),
    ("one task at a time", one_task::check),
    ("a task starts in a valid term", valid_term::check),
];

const ONE_OPINION: &[Invariant] = &[("all that see a leader see the same one", one_opinion::check)];

const STEADY: &[Invariant] = &[("a leader without a fault goes on leading", steady::check)];

const EPOCHS: &[Invariant] = &[("epochs grow", epochs_grow::check)];

/// The invariants that apply to all contestants.
const OF_ALL: &[Invariant] = &[
    ("a lease never ends early", lease_kept::check),
    ("a lease id has one term", one_term_per_id::check),
    ("one generation accepts at a time", one_generation::check),
    (
        "what was acknowledged is loaded",
        acknowledged_loaded::check,
    ),
    ("a stale leader's write is refused", fenced::check),
    (
        "there is a leader when the faults are over",
        progress::check,
    ),
    (
        "somebody leads whenever a quorum is connected",
        progress::check_quorums,
    ),
    (
        "all agree on the leader when the faults are over",
        agreement::check,
    ),
    (
        "the leader has the greatest epoch when the faults are over",
        greatest_epoch::check,
    ),
];

/// Checks all invariants that these guarantees imply and returns the first violation.
///
/// # Errors
///
/// [`Violation`].
pub fn check(history: &[HistoryEvent], promises: &Promises) -> Result<(), Violation> {
    let groups = [
        (promises.one_leader, ONE_LEADER),
        (promises.one_opinion, ONE_OPINION),
        (promises.steady, STEADY),
        (promises.epochs, EPOCHS),
        (true, OF_ALL),
    ];
    let implied = groups.into_iter().filter(|(is_implied, _)| *is_implied);
    let broken = implied
        .flat_map(|(_, group)| group)
        .filter_map(|&(invariant, check)| {
            let (at, what) = check(history, promises).err()?;
            Some(Violation {
                invariant,
                at,
                what,
            })
        });
    broken
        .min_by_key(|violation| violation.at)
        .map_or(Ok(()), Err)
}

/// The processes that have claimed to lead, and the ends of their claims.
#[derive(Debug, Default)]
struct Claims(BTreeMap<NodeId, Time>);

impl Claims {
    fn update(&mut self, event: &HistoryEvent) {
        match event.kind {
            HistoryEventKind::Claims(_, until) => {
                self.0.insert(event.node, until);
            }
            HistoryEventKind::Yields | HistoryEventKind::Stopped => {
                self.0.remove(&event.node);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod made_up {
    //! Histories made up by hand.

    use std::time::Duration;

    use tenure_core::{Epoch, NodeId};

    use super::Promises;
    use crate::sim::{HistoryEvent, HistoryEventKind, Time};

    pub(super) const PROMISES: Promises = Promises {
        one_leader: true,
        epochs: true,
        one_opinion: true,
        steady: true,
        leads_within: Some(Duration::from_secs(20)),
        settles_within: Duration::from_secs(30),
    };

    pub(super) fn at(secs: u64) -> Time {
        Time::after(Duration::from_secs(secs))
    }

    pub(super) fn epoch(number: u64) -> Epoch {
        Epoch::new(number).unwrap()
    }

    pub(super) fn history(
        events: impl IntoIterator<Item = (u64, u32, HistoryEventKind)>,
    ) -> Vec<HistoryEvent> {
        let event = |(secs, node, what)| HistoryEvent {
            at: at(secs),
            node: NodeId(node),
            kind: what,
        };
        events.into_iter().map(event).collect()
    }

    pub(super) fn claims(number: u64, until: u64) -> HistoryEventKind {
        HistoryEventKind::Claims(Some(epoch(number)), at(until))
    }
}

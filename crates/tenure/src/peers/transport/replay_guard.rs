//! The newest process of each member, and its last request number.

use std::collections::BTreeMap;

use tenure_core::{Incarnation, NodeId};

use crate::peers::wire::envelope::Start;
use crate::peers::wire::problem::{PeerErrorCode, PeerProblem};

/// The newest process of each member, and the number of its last request.
#[derive(Debug, Default)]
pub(super) struct ReplayGuard(BTreeMap<NodeId, KnownProcess>);

#[derive(Debug)]
struct KnownProcess {
    start: Start,
    number: u64,
    /// Whether another process claims to be the same start of the same member.
    runs_twice: bool,
}

impl ReplayGuard {
    /// Checks that a request with this number is acceptable now.
    ///
    /// A sender has one request in flight at a time, so a smaller number belongs to a request that
    /// the sender has given up, or to a copy.
    pub(super) fn check(
        &mut self,
        from: NodeId,
        start: Start,
        number: u64,
    ) -> Result<(), PeerProblem> {
        self.check_start(from, start)?;
        match self.0.get(&from) {
            Some(known) if known.start == start && number <= known.number => Err(PeerProblem::new(
                PeerErrorCode::Replayed,
                format!(
                    "message {number} of member {from} is not newer than {}, which was taken",
                    known.number
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Checks that this process is the member's newest one.
    ///
    /// If two processes claim the same start of this member, this member can't know which one is
    /// correct. It refuses both until the member is started again.
    pub(super) fn check_start(&mut self, from: NodeId, start: Start) -> Result<(), PeerProblem> {
        let Some(known) = self.0.get_mut(&from) else {
            return Ok(());
        };
        let (now, had) = (start.incarnation, known.start.incarnation);
        if now < had {
            let detail = format!("start {now} of member {from} comes after its start {had}");
            return Err(PeerProblem::new(PeerErrorCode::OlderStart, detail));
        }
        known.runs_twice |= now == had && start != known.start;
        if now == had && known.runs_twice {
            let detail = format!("two processes claim to be start {now} of member {from}");
            return Err(PeerProblem::new(PeerErrorCode::RunsTwice, detail));
        }
        Ok(())
    }

    /// Returns the start of this member that two processes claim.
    pub(super) fn duplicate_start(&self, node: NodeId) -> Option<Incarnation> {
        let known = self.0.get(&node).filter(|known| known.runs_twice);
        known.map(|known| known.start.incarnation)
    }

    /// Records that a request was admitted.
    pub(super) fn admit(&mut self, from: NodeId, start: Start, number: u64) {
        let known = KnownProcess {
            start,
            number,
            runs_twice: false,
        };
        self.0.insert(from, known);
    }

    /// Records that an answer arrived from a process that was checked.
    pub(super) fn handle_answer(&mut self, from: NodeId, start: Start) {
        if self.0.get(&from).is_none_or(|known| known.start != start) {
            self.admit(from, start, 0);
        }
    }
}

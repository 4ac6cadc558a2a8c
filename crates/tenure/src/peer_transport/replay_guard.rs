//! The newest process of each member, and its last request number.

use std::collections::BTreeMap;

use tenure_core::{Incarnation, NodeId};

use super::envelope::Start;
use super::problem::{PeerErrorCode, Refusal};

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

impl KnownProcess {
    const fn new(start: Start, number: u64) -> Self {
        Self {
            start,
            number,
            runs_twice: false,
        }
    }
}

impl ReplayGuard {
    /// Checks that a request with this number may come in now. It changes nothing.
    ///
    /// A sender has one request on its way at a time, so a smaller number belongs to one that it
    /// has given up, or to a copy.
    pub(super) fn check(&self, from: NodeId, start: Start, number: u64) -> Result<(), Refusal> {
        self.check_start(from, start)?;
        match self.0.get(&from) {
            Some(known) if known.start == start && number <= known.number => Err(Refusal::new(
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
    pub(super) fn check_start(&self, from: NodeId, start: Start) -> Result<(), Refusal> {
        let Some(known) = self.0.get(&from) else {
            return Ok(());
        };
        let (now, had) = (start.incarnation, known.start.incarnation);
        if now < had {
            let detail = format!("start {now} of member {from} comes after its start {had}");
            Err(Refusal::new(PeerErrorCode::OlderStart, detail))
        } else if now == had && (start != known.start || known.runs_twice) {
            let detail = format!("two processes claim to be start {now} of member {from}");
            Err(Refusal::new(PeerErrorCode::RunsTwice, detail))
        } else {
            Ok(())
        }
    }

    /// Two processes are one start of this member. Nothing tells which of them is right, so both
    /// are refused until the member is started again.
    pub(super) fn mark_duplicate(&mut self, from: NodeId) {
        if let Some(known) = self.0.get_mut(&from) {
            known.runs_twice = true;
        }
    }

    /// The start of this member of which two processes were heard.
    pub(super) fn duplicate_start(&self, node: NodeId) -> Option<Incarnation> {
        let known = self.0.get(&node).filter(|known| known.runs_twice);
        known.map(|known| known.start.incarnation)
    }

    /// A request was admitted.
    pub(super) fn admit(&mut self, from: NodeId, start: Start, number: u64) {
        self.0.insert(from, KnownProcess::new(start, number));
    }

    /// An answer came, from a process that was checked.
    pub(super) fn handle_answer(&mut self, from: NodeId, start: Start) {
        let known = self
            .0
            .entry(from)
            .or_insert_with(|| KnownProcess::new(start, 0));
        if known.start != start {
            *known = KnownProcess::new(start, 0);
        }
    }
}

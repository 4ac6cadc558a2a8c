//! Which process of each member was heard last, and how far it had come.

use std::collections::BTreeMap;

use tenure_core::{Incarnation, NodeId};

use super::envelope::Start;
use super::problem::{PeerErrorCode, Refusal};

/// The last process heard of each member, and the number of its last request.
#[derive(Debug, Default)]
pub(super) struct ReplayGuard(BTreeMap<NodeId, KnownProcess>);

#[derive(Debug)]
struct KnownProcess {
    start: Start,
    number: u64,
    /// Whether another process has said that it is the same start of the same member.
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
    /// Whether a request with this number may come in now. It changes nothing.
    ///
    /// A sender has one request on its way at a time, so a smaller number is one that it has given
    /// up, or a copy.
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

    /// Whether this process is the member's last one.
    pub(super) fn check_start(&self, from: NodeId, start: Start) -> Result<(), Refusal> {
        let Some(known) = self.0.get(&from) else {
            return Ok(());
        };
        let (now, had) = (start.incarnation, known.start.incarnation);
        if now < had {
            let detail = format!("start {now} of member {from} speaks after its start {had}");
            Err(Refusal::new(PeerErrorCode::OlderStart, detail))
        } else if now == had && (start != known.start || known.runs_twice) {
            let detail = format!("two processes say that they are start {now} of member {from}");
            Err(Refusal::new(PeerErrorCode::RunsTwice, detail))
        } else {
            Ok(())
        }
    }

    /// Two processes are one start of this member. Nobody knows which of them is right, so neither is
    /// heard any more, until it is started again.
    pub(super) fn runs_twice(&mut self, from: NodeId) {
        if let Some(known) = self.0.get_mut(&from) {
            known.runs_twice = true;
        }
    }

    /// The start as which two processes of this member were heard.
    pub(super) fn heard_twice(&self, node: NodeId) -> Option<Incarnation> {
        let known = self.0.get(&node).filter(|known| known.runs_twice);
        known.map(|known| known.start.incarnation)
    }

    /// A request came in.
    pub(super) fn took(&mut self, from: NodeId, start: Start, number: u64) {
        self.0.insert(from, KnownProcess::new(start, number));
    }

    /// An answer came, from a process that was checked.
    pub(super) fn answered(&mut self, from: NodeId, start: Start) {
        let known = self
            .0
            .entry(from)
            .or_insert_with(|| KnownProcess::new(start, 0));
        if known.start != start {
            *known = KnownProcess::new(start, 0);
        }
    }
}

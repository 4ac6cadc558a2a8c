//! Which process of each member was heard last, and how far it had come.

use std::collections::BTreeMap;

use tenure_core::NodeId;

use super::envelope::Start;
use super::refusal::{Code, Refusal};

/// The last process heard of each member, and the number of its last request.
#[derive(Debug, Default)]
pub(super) struct Visitors(BTreeMap<NodeId, (Start, u64)>);

impl Visitors {
    /// Whether a request with this number may come in now. It changes nothing.
    ///
    /// A sender has one request on its way at a time, so a smaller number is one that it has given
    /// up, or a copy.
    pub(super) fn check(&self, from: NodeId, start: Start, number: u64) -> Result<(), Refusal> {
        self.check_start(from, start)?;
        match self.0.get(&from) {
            Some(&(known, last)) if known == start && number <= last => Err(Refusal::new(
                Code::Replayed,
                format!(
                    "message {number} of member {from} is not newer than {last}, which was taken"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Whether this process is the member's last one.
    pub(super) fn check_start(&self, from: NodeId, start: Start) -> Result<(), Refusal> {
        let Some((known, _)) = self.0.get(&from) else {
            return Ok(());
        };
        let (now, had) = (start.incarnation, known.incarnation);
        if now < had {
            let detail = format!("start {now} of member {from} speaks after its start {had}");
            Err(Refusal::new(Code::OlderStart, detail))
        } else if now == had && start.instance != known.instance {
            let detail = format!("two processes say that they are start {now} of member {from}");
            Err(Refusal::new(Code::RunsTwice, detail))
        } else {
            Ok(())
        }
    }

    /// A request came in.
    pub(super) fn took(&mut self, from: NodeId, start: Start, number: u64) {
        self.0.insert(from, (start, number));
    }

    /// An answer came, from a process that was checked.
    pub(super) fn answered(&mut self, from: NodeId, start: Start) {
        let known = self.0.entry(from).or_insert((start, 0));
        if known.0 != start {
            *known = (start, 0);
        }
    }
}

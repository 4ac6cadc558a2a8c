//! Questions on demand, with a down list.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::message::{DetectorInput, DetectorOutput, Group};
use super::peer_table::{AskOptions, PeerTable, Step};
use super::{Detector, earliest};
use crate::{Instant, NodeId};

/// The detector of Bully_FD: it sends nothing until a client asks, and it remembers the nodes that
/// were down.
///
/// A question about a node that is not listed sends a ping and waits for the timeout. A node that
/// does not answer goes on the **down list**, and the next question about it is answered at once. A
/// node that starts sends a notice to all others, which remove it from their lists. A watch asks
/// about its node every `poll`.
///
/// In the papers an entry stays on the list until the recovery notice arrives; if that message is
/// lost, the node counts as down for ever. Therefore an entry here is an answer only while it is
/// fresh, and needs the confirmation of a ping after that; any message of the node removes the
/// entry; and notices are repeated until they are acknowledged.
///
/// - Detection: at most `poll` + `timeout`, if timers are punctual. A question is answered within
///   `timeout`, or at once if the node has a fresh entry on the list.
/// - Messages: none in the background; 2 per poll of a node that is up, 1 per poll of a listed node
///   whose entry is not fresh; 2 per recovery notice.
/// - A node that is back and whose notices are all lost: asked again after at most `fresh`.
///
/// Source: S.-H. Park, "An Election Algorithm with Failure Detectors in Distributed Systems" (2008),
/// section 2.2, and section 3 of "An Efficient Coordinator Election Algorithm in Synchronous
/// Distributed Systems" (2004) by the same author.
#[derive(Debug)]
pub struct OnDemand {
    table: PeerTable,
    poll: Duration,
    /// The time of the next question about each node under watch.
    polls: BTreeMap<NodeId, Instant>,
}

impl OnDemand {
    /// The interval of a watch's questions, unless it is chosen.
    pub const POLL: Duration = Duration::from_secs(1);

    /// The detector of a node, with this interval of a watch's questions: at least the ask timeout. A
    /// longer interval means fewer messages and later detection.
    #[must_use]
    pub fn new(group: &Group, ask: AskOptions, poll: Duration) -> Self {
        Self {
            table: PeerTable::new(group, ask),
            poll,
            polls: BTreeMap::new(),
        }
    }
}

impl Detector for OnDemand {
    fn handle_input(&mut self, now: Instant, input: DetectorInput) {
        match self.table.handle_input(now, input) {
            Step::Nothing => {}
            Step::Watch(node) => {
                self.polls.insert(node, now);
                self.handle_timeout(now);
            }
            Step::Unwatch(node) => {
                self.polls.remove(&node);
            }
            Step::Heard { from, .. } => self.table.trust(from),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for node in self.table.handle_timeout(now) {
            self.table.suspect(now, node);
        }
        let due = self.polls.iter_mut().filter(|(_, next)| **next <= now);
        let due: Vec<NodeId> = due
            .map(|(node, next)| {
                *next = now + self.poll;
                *node
            })
            .collect();
        for node in due {
            self.table.ask_about(now, node);
        }
    }

    fn poll_output(&mut self) -> Option<DetectorOutput> {
        self.table.poll_output()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let poll = self.polls.values().min().copied();
        earliest([self.table.poll_timeout(), poll])
    }

    fn is_suspected(&self, node: NodeId) -> bool {
        self.table.is_suspected(node)
    }

    fn detection_bound(&self, _delay: Duration) -> Duration {
        self.poll + self.table.options.timeout
    }
}

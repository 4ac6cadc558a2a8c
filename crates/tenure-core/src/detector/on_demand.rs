//! Questions on demand, with a down list.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::message::{DetectorInput, DetectorOutput, Group};
use super::peer_table::{PeerTable, Step};
use super::{AskOptions, Detector, earliest};
use crate::{Instant, NodeId};

/// The detector of Bully_FD. It sends nothing until a client asks, and it remembers the nodes that
/// were down.
///
/// A question about a node that is not listed sends a ping and waits for the timeout. A node that
/// does not answer goes on the **down list**, and the next question about it is answered at once. A
/// node that starts sends a recovery notice to all others, which remove it from their lists. A
/// watch asks about its node at the interval `poll`.
///
/// In the papers, an entry stays on the list until the recovery notice arrives. If the notice is
/// lost, the node counts as down for ever. Therefore this detector answers from an entry only while
/// it is fresh, and confirms an older entry by a ping. Any message of the node removes its entry.
/// Notices are repeated until they are acknowledged.
///
/// - Detection: at most `poll` + `timeout` after the node's last message has arrived, if timers are
///   punctual. A question is answered within
///   `timeout`, or at once if the node has a fresh entry on the list.
/// - Messages: none in the background; 2 per poll of a node that is up, 1 per poll of a listed node
///   whose entry is not fresh; 2 per recovery notice.
/// - Recovery when all notices are lost: the next question after `fresh` pings the node again.
///
/// Source: S.-H. Park, "An Election Algorithm with Failure Detectors in Distributed Systems"
/// (2008), section 2.2, and section 3 of "An Efficient Coordinator Election Algorithm in
/// Synchronous Distributed Systems" (2004) by the same author.
#[derive(Debug)]
pub struct OnDemand {
    table: PeerTable,
    poll: Duration,
    /// The time of the next question about each node under watch.
    polls: BTreeMap<NodeId, Instant>,
}

impl OnDemand {
    /// The default interval of a watch's questions.
    pub const POLL: Duration = Duration::from_secs(1);

    /// Creates the detector of a node. `poll` is the interval of a watch's questions, at least the
    /// ask timeout. A longer interval means fewer messages and later detection.
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

    /// Any message of the node settles the open question. Its last one may arrive `delay` after the
    /// crash.
    fn detection_bound(&self, delay: Duration) -> Duration {
        delay + self.poll + self.table.options.timeout
    }
}

//! On demand, with a down list.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::message::{DetectorInput, DetectorOutput, Group};
use super::options::{self, OptionsError};
use super::peer_table::{AskOptions, PeerTable, Step};
use super::{Detector, earliest};
use crate::{Instant, NodeId};

/// The detector of Bully_FD: it sends nothing unless it is asked, and remembers who was down.
///
/// A question about a node that is not listed sends a ping and waits for the timeout; a node that
/// does not answer is put on the **down list**, and whoever asks about it again is answered at once.
/// A node that is back tells all the others, which take it off their lists. A watch asks about its
/// node every `poll`.
///
/// In the papers an entry of the list stays until the recovery notice comes; if that one message is
/// lost, the node counts as down for ever. Therefore here an entry is told as it is only while it is
/// fresh and is confirmed by a ping after that; any message of the node removes it; and notices are
/// sent again until they are acknowledged.
///
/// - Detection: at most `poll` + `timeout`, while timers are punctual; a question is answered within
///   `timeout`, and at once about a node that is listed and fresh.
/// - Messages: none in the background; 2 per poll of a node that is up, 1 per poll of one that is
///   listed and no longer fresh; 2 per recovery notice.
/// - A node that is back while all its notices are lost: asked again at most `fresh` later.
///
/// Source: S.-H. Park, "An Election Algorithm with Failure Detectors in Distributed Systems" (2008),
/// section 2.2, and section 3 of "An Efficient Coordinator Election Algorithm in Synchronous
/// Distributed Systems" (2004) by the same author.
#[derive(Debug)]
pub struct OnDemand {
    desk: PeerTable,
    options: OnDemandOptions,
    /// When to ask next about a node under watch.
    polls: BTreeMap<NodeId, Instant>,
}

/// The parameters of [`OnDemand`], beside [`AskOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnDemandOptions {
    /// How often a watch asks. Default 1 s, at least the ask timeout. Longer: fewer messages, later
    /// detection.
    pub poll: Duration,
}

impl Default for OnDemandOptions {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
        }
    }
}

impl OnDemand {
    /// The detector of a node.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] when the parameters can't hold together; it names both numbers.
    pub fn new(
        group: &Group,
        ask: AskOptions,
        options: OnDemandOptions,
    ) -> Result<Self, OptionsError> {
        let desk = PeerTable::new(group, ask)?;
        options::duration("poll", options.poll)?;
        options::at_least("poll", options.poll, "the ask timeout ", ask.timeout)?;
        Ok(Self {
            desk,
            options,
            polls: BTreeMap::new(),
        })
    }
}

impl Detector for OnDemand {
    fn handle_input(&mut self, now: Instant, input: DetectorInput) {
        match self.desk.handle_input(now, input) {
            Step::Nothing => {}
            Step::Watch(node) => {
                self.polls.insert(node, now);
                self.handle_timeout(now);
            }
            Step::Unwatch(node) => {
                self.polls.remove(&node);
            }
            Step::Heard { from, .. } => self.desk.trust(from),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for node in self.desk.handle_timeout(now) {
            self.desk.suspect(now, node);
        }
        let due = self.polls.iter_mut().filter(|(_, next)| **next <= now);
        let due: Vec<NodeId> = due
            .map(|(node, next)| {
                *next = now + self.options.poll;
                *node
            })
            .collect();
        for node in due {
            self.desk.ask_about(now, node);
        }
    }

    fn poll_output(&mut self) -> Option<DetectorOutput> {
        self.desk.poll_output()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let poll = self.polls.values().min().copied();
        earliest([self.desk.poll_timeout(), poll])
    }

    fn is_suspected(&self, node: NodeId) -> bool {
        self.desk.is_suspected(node)
    }

    fn detection_bound(&self, _delay: Duration) -> Duration {
        self.options.poll + self.desk.options().timeout
    }
}

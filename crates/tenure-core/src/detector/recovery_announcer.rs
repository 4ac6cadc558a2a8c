//! Recovery notices: a node that starts sends them to each other node until that node has
//! acknowledged one.
//!
//! Every detector remembers for a while that a node was down, and answers from memory. So a node
//! that starts must notify all other nodes, even those to which it has nothing else to send.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::message::{DetectorMessage, Group};
use crate::{Instant, NodeId};

/// Longest time between two notices to one node. It limits the messages to a node that stays down.
const MAX_NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// The nodes that have not acknowledged yet.
#[derive(Debug)]
pub(super) struct RecoveryAnnouncer {
    /// The time of the next notice to each node, and the interval after that.
    open: BTreeMap<NodeId, (Instant, Duration)>,
    /// The earliest of these times. Drivers ask for it all the time, and a large group has many
    /// nodes.
    due: Instant,
}

impl RecoveryAnnouncer {
    /// Notices to all other nodes, the first at once, the second after `interval`; then the
    /// interval doubles.
    pub(super) fn new(group: &Group, interval: Duration) -> Self {
        let due = Instant::default();
        let first = (due, interval.min(MAX_NOTICE_INTERVAL));
        let open = group.peers().map(|node| (node, first)).collect();
        Self { open, due }
    }

    /// An acknowledgement of an earlier incarnation does not count for this one.
    pub(super) fn handle_message(
        &mut self,
        from: NodeId,
        message: &DetectorMessage,
        group: &Group,
    ) {
        if let DetectorMessage::RecoveredAck { incarnation } = message
            && *incarnation == group.incarnation()
        {
            self.open.remove(&from);
        }
    }

    /// The nodes to which a notice is due; their next one is later.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<NodeId> {
        if now < self.due || self.open.is_empty() {
            return Vec::new();
        }
        let mut due = Vec::new();
        let mut earliest = None;
        for (node, (next, interval)) in &mut self.open {
            if *next <= now {
                *next = now + *interval;
                *interval = (*interval * 2).min(MAX_NOTICE_INTERVAL);
                due.push(*node);
            }
            earliest = Some(earliest.map_or(*next, |earliest| (*next).min(earliest)));
        }
        self.due = earliest.unwrap_or(self.due);
        due
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        (!self.open.is_empty()).then_some(self.due)
    }
}

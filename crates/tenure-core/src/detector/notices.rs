//! Recovery notices: what a node that is back sends, until each of the others has acknowledged it.
//!
//! Whichever way a detector watches: it remembers for a while who was down, and tells that without asking. So
//! who is back must say so to those, too, to whom it would have nothing to say.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::message::{Group, Message};
use crate::{Instant, NodeId};

/// Longest time between two notices to one node: what a node that is down for good costs.
const MAX_NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// Those who have not acknowledged yet: when to tell them again, and how long to wait after that.
#[derive(Debug)]
pub(super) struct Notices(BTreeMap<NodeId, (Instant, Duration)>);

impl Notices {
    /// Notices to all the others, the first at once, the second `interval` later; then it doubles.
    pub(super) fn new(group: &Group, interval: Duration) -> Self {
        let first = (Instant::default(), interval.min(MAX_NOTICE_INTERVAL));
        Self(group.peers().map(|node| (node, first)).collect())
    }

    /// An acknowledgement of an earlier start says nothing of this one.
    pub(super) fn handle_message(&mut self, from: NodeId, message: &Message, group: &Group) {
        if let Message::RecoveredAck { incarnation } = message
            && *incarnation == group.incarnation()
        {
            self.0.remove(&from);
        }
    }

    /// To whom one is due; the next one is later.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<NodeId> {
        let due = self.0.iter_mut().filter(|(_, (next, _))| *next <= now);
        due.map(|(node, (next, interval))| {
            *next = now + *interval;
            *interval = (*interval * 2).min(MAX_NOTICE_INTERVAL);
            *node
        })
        .collect()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.values().map(|(next, _)| *next).min()
    }
}

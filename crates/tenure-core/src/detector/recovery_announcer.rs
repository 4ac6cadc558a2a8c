//! Recovery notices: what a node that is back sends, until each of the others has acknowledged it.
//!
//! Whichever way a detector watches: it remembers for a while who was down, and tells that without asking. So
//! who is back must say so to those, too, to whom it would have nothing to say.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::message::{DetectorMessage, Group};
use crate::{Instant, NodeId};

/// Longest time between two notices to one node: what a node that is down for good costs.
const MAX_NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// Those who have not acknowledged yet.
#[derive(Debug)]
pub(super) struct RecoveryAnnouncer {
    /// When to tell each of them again, and how long to wait after that.
    open: BTreeMap<NodeId, (Instant, Duration)>,
    /// None is due before. Whoever drives a detector asks for that all the time, and in a large group
    /// there are many.
    due: Instant,
}

impl RecoveryAnnouncer {
    /// Notices to all the others, the first at once, the second `interval` later; then it doubles.
    pub(super) fn new(group: &Group, interval: Duration) -> Self {
        let due = Instant::default();
        let first = (due, interval.min(MAX_NOTICE_INTERVAL));
        let open = group.peers().map(|node| (node, first)).collect();
        Self { open, due }
    }

    /// An acknowledgement of an earlier start says nothing of this one.
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

    /// To whom one is due; the next one is later.
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

//! The queue of outputs, which holds messages back until records are on disk.

use alloc::collections::VecDeque;

use super::{HardState, NodeId, PeerEffect, PeerMessage};
use crate::election::Outputs;

/// The outputs that were not polled yet.
///
/// **The content of a message is durable before the message leaves.** From a
/// [`PeerEffect::Persist`] until its acknowledgement, all messages are held back. So no code needs
/// to know which message depends on which record. Term events and questions to the detector are not
/// held back, so that a slow disk cannot delay the stop of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Outbox {
    pub(super) ready: Outputs<PeerEffect>,
    held: VecDeque<(NodeId, PeerMessage)>,
    /// The number of records that are being written to disk.
    unwritten: u32,
}

impl Outbox {
    pub(super) fn send(&mut self, to: NodeId, message: PeerMessage) {
        if self.is_durable() {
            self.ready.effect(PeerEffect::Send { to, message });
        } else {
            self.held.push_back((to, message));
        }
    }

    /// Discards the messages that wait for the disk, because they are no longer true.
    pub(super) fn discard_held(&mut self) {
        self.held.clear();
    }

    pub(super) fn persist(&mut self, record: HardState) {
        self.unwritten += 1;
        self.ready.effect(PeerEffect::Persist(record));
    }

    /// Returns whether all records are on disk.
    pub(super) const fn is_durable(&self) -> bool {
        self.unwritten == 0
    }

    /// Handles the acknowledgement that the oldest record is on disk.
    pub(super) fn handle_persisted(&mut self) {
        self.unwritten = self.unwritten.saturating_sub(1);
        if self.is_durable() {
            for (to, message) in core::mem::take(&mut self.held) {
                self.ready.effect(PeerEffect::Send { to, message });
            }
        }
    }

    /// Returns whether a message to this member waits for the disk.
    pub(super) fn holds_message_to(&self, node: NodeId) -> bool {
        self.held.iter().any(|(to, _)| *to == node)
    }
}

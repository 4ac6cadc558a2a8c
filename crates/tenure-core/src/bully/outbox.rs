//! Outputs, and the barrier before the disk.

use alloc::collections::VecDeque;

use super::{HardState, NodeId, PeerEffect, PeerMessage};
use crate::election::Outputs;

/// Outputs not yet polled.
///
/// **The content of a message is durable before the message leaves.** From a
/// [`PeerEffect::Persist`] until its acknowledgement no message leaves at all, so nothing has to
/// know which message rests on which record. Term events and questions to the detector are not
/// held, so that a slow disk can't keep a task from being stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Outbox {
    pub(super) ready: Outputs<PeerEffect>,
    held: VecDeque<(NodeId, PeerMessage)>,
    /// Records on their way to the disk.
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

    /// Discards the messages that wait for the disk: they were true when they were made, and are
    /// not now.
    pub(super) fn discard_held(&mut self) {
        self.held.clear();
    }

    pub(super) fn persist(&mut self, record: HardState) {
        self.unwritten += 1;
        self.ready.effect(PeerEffect::Persist(record));
    }

    /// Whether all records are on disk.
    pub(super) const fn is_durable(&self) -> bool {
        self.unwritten == 0
    }

    /// The oldest record is on disk.
    pub(super) fn handle_persisted(&mut self) {
        self.unwritten = self.unwritten.saturating_sub(1);
        if self.is_durable() {
            for (to, message) in core::mem::take(&mut self.held) {
                self.ready.effect(PeerEffect::Send { to, message });
            }
        }
    }

    /// Whether a message to this member waits for the disk.
    pub(super) fn holds_message_to(&self, node: NodeId) -> bool {
        self.held.iter().any(|(to, _)| *to == node)
    }
}

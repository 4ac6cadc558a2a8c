//! The queue of messages to one member.

use std::collections::VecDeque;
use std::mem::{Discriminant, discriminant};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tenure_core::{Instant, bully, detector};
use tokio::sync::Notify;

use super::envelope::Payload;

/// Messages that wait for the request before them, one of each kind: the queue can't grow beyond
/// the number of kinds.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    waiting: Mutex<VecDeque<Queued>>,
    /// Whether a message that was taken out is still under way.
    under_way: AtomicBool,
    more: Notify,
}

/// A message that waits.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) payload: Payload,
    /// When the driver handed it over: its age counts from then.
    pub(super) made: Instant,
}

impl SendQueue {
    /// Adds a message. Returns whether it replaced one: of two of a kind the older one tells
    /// nothing that the receiver still needs, and any message may be lost anyway.
    pub(super) fn push(&self, payload: Payload, made: Instant) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = Kind::of(&payload);
        let before = waiting.len();
        waiting.retain(|queued| Kind::of(&queued.payload) != kind);
        let replaced = waiting.len() < before;
        waiting.push_back(Queued { payload, made });
        drop(waiting);
        self.more.notify_one();
        replaced
    }

    /// Whether all messages have been sent, or are lost.
    pub(super) fn is_idle(&self) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.is_empty() && !self.under_way.load(Ordering::Relaxed)
    }

    /// The message that has waited longest. The caller has finished with the one before.
    pub(super) async fn next(&self) -> Queued {
        loop {
            let next = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                let next = waiting.pop_front();
                self.under_way.store(next.is_some(), Ordering::Relaxed);
                next
            };
            match next {
                Some(queued) => return queued,
                None => self.more.notified().await,
            }
        }
    }
}

/// The kind of a message.
#[derive(PartialEq)]
enum Kind {
    Election(Discriminant<bully::PeerMessage>),
    Guard(Discriminant<bully::QuorumMessage>),
    Detector(Discriminant<detector::DetectorMessage>),
    Metadata,
}

impl Kind {
    fn of(payload: &Payload) -> Self {
        match payload {
            Payload::Election(bully::PeerMessage::Quorum(message)) => {
                Self::Guard(discriminant(message))
            }
            Payload::Election(message) => Self::Election(discriminant(message)),
            Payload::Detector(message) => Self::Detector(discriminant(message)),
            Payload::Metadata(_) => Self::Metadata,
        }
    }
}

//! The queue of messages to one member.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_core::Instant;
use tokio::sync::Notify;

use crate::peers::wire::envelope::Payload;

/// Messages that wait for the request before them, at most one of each kind, so the queue can't
/// grow beyond the number of kinds.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    state: Mutex<State>,
    more: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Queued>,
    /// Whether a message that was removed from the queue is still being sent.
    is_under_way: bool,
}

/// A message that waits.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) payload: Payload,
    /// The time at which the driver queued the message. Its age counts from then.
    pub(super) made: Instant,
}

impl SendQueue {
    /// Adds a message. Returns whether it replaced an older message of the same kind. The receiver
    /// needs only the newer one, and any message may be lost anyway.
    pub(super) fn push(&self, payload: Payload, made: Instant) -> bool {
        let mut state = self.state();
        let before = state.waiting.len();
        state.waiting.retain(|it| !it.payload.is_like(&payload));
        let is_replacing = state.waiting.len() < before;
        state.waiting.push_back(Queued { payload, made });
        self.more.notify_one();
        is_replacing
    }

    /// Returns whether all messages have been sent or are lost.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        state.waiting.is_empty() && !state.is_under_way
    }

    /// Returns the message that has waited longest. The caller must have finished with the previous
    /// message.
    pub(super) async fn next(&self) -> Queued {
        loop {
            if let Some(next) = self.pop() {
                return next;
            }
            self.more.notified().await;
        }
    }

    fn pop(&self) -> Option<Queued> {
        let mut state = self.state();
        let next = state.waiting.pop_front();
        state.is_under_way = next.is_some();
        next
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

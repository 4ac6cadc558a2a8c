//! An ownership, and the append that is under way.

use super::{OwnershipTimings, Tail};
use crate::Instant;

/// The ownership of the log under one generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owned {
    /// When the append that succeeded last was sent for the first time.
    pub(super) sent: Instant,
    /// When the next append is due, if there is none before.
    pub(super) beat_at: Instant,
    pub(super) is_loaded: bool,
    /// Whether the server was told that it lapsed.
    pub(super) has_lapsed: bool,
}

impl Owned {
    pub(super) fn new(sent: Instant, timings: &OwnershipTimings) -> Self {
        Self {
            sent,
            beat_at: sent + timings.beat(),
            is_loaded: false,
            has_lapsed: false,
        }
    }

    /// Notes that an append succeeded.
    pub(super) fn extend(&mut self, sent: Instant, timings: &OwnershipTimings) {
        self.sent = sent;
        self.beat_at = sent + timings.beat();
    }
}

/// The append that is under way: it was sent at least once, and its outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) tail: Tail,
    /// When the first attempt was sent. The owner counts from here if any attempt succeeds, because
    /// any of them may be the one that was applied, and a follower may have seen it since then.
    pub(super) first_sent: Instant,
    /// When the last attempt was sent.
    pub(super) sent: Instant,
    /// When the append is repeated; `None` while an attempt is in flight.
    pub(super) repeat_at: Option<Instant>,
    /// Whether the outcome of an earlier attempt is unknown. It may still be applied.
    pub(super) is_unknown: bool,
}

impl Attempt {
    /// `now` was read before the first byte leaves.
    pub(super) const fn new(tail: Tail, now: Instant) -> Self {
        Self {
            tail,
            first_sent: now,
            sent: now,
            repeat_at: None,
            is_unknown: false,
        }
    }

    pub(super) const fn send_again(&mut self, now: Instant) {
        self.sent = now;
        self.repeat_at = None;
    }
}

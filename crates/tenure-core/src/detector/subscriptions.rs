//! Subscriptions of other members to this node's heartbeats.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use super::message::{DetectorMessage, DetectorOutput};
use super::options::{MAX_DURATION, MIN_INTERVAL};
use crate::time::nanos;
use crate::{Instant, NodeId};

/// The members that have subscribed to this node's heartbeats.
///
/// [`PeerTable`](super::peer_table::PeerTable) serves them for every detector. So a node sends
/// heartbeats to a member that needs them, whichever detector the node itself runs.
///
/// Heartbeats leave at multiples of the subscriber's interval **on the sender's clock**,
/// independent of the subscriber and of the time of the subscription. So heartbeat number `tick` is
/// due `tick` intervals after a fixed moment. Estimators rely on this, also after expired subscriptions, lost
/// heartbeats and pauses.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    /// At most one for each member of the group: the caller checks that the subscriber is one.
    by_member: BTreeMap<NodeId, Subscription>,
}

#[derive(Clone, Copy, Debug)]
struct Subscription {
    interval: Duration,
    until: Instant,
    next: Instant,
}

impl Subscription {
    /// Returns the number of the interval that contains `now`.
    fn tick(self, now: Instant) -> u64 {
        now.as_nanos() / nanos(self.interval)
    }

    fn after(self, now: Instant) -> Instant {
        let tick = self.tick(now).saturating_add(1);
        Instant::from_nanos(tick.saturating_mul(nanos(self.interval)))
    }
}

impl Subscriptions {
    /// Adds or renews the subscription of a member.
    ///
    /// The interval is clamped to the range that every member's own settings must keep, so a valid
    /// interval never changes. A shorter one can only come from a defect or from another version.
    /// Its sender gets the shortest interval and not a refusal, because it would take this node's
    /// silence for a crash. The clamp bounds the cost: a member cannot ask for more than a hundred
    /// heartbeats per second, nor for a subscription that outlives it by more than a day.
    pub(super) fn renew(
        &mut self,
        now: Instant,
        from: NodeId,
        interval: Duration,
        lifetime: Duration,
    ) {
        let mut subscription = Subscription {
            interval: interval.clamp(MIN_INTERVAL, MAX_DURATION),
            until: now + lifetime.min(MAX_DURATION),
            next: now,
        };
        subscription.next = match self.by_member.get(&from) {
            Some(old) if old.interval == subscription.interval => old.next,
            _ => subscription.after(now),
        };
        self.by_member.insert(from, subscription);
    }

    /// Ends the subscription of a member.
    pub(super) fn end(&mut self, of: NodeId) {
        self.by_member.remove(&of);
    }

    /// Sends the heartbeats that are due, and drops the subscriptions that have expired.
    pub(super) fn handle_timeout(&mut self, now: Instant, outputs: &mut VecDeque<DetectorOutput>) {
        self.by_member.retain(|_, it| now < it.until);
        for (&to, subscription) in &mut self.by_member {
            if subscription.next <= now {
                let tick = subscription.tick(now);
                let message = DetectorMessage::Heartbeat { tick };
                outputs.push_back(DetectorOutput::Send { to, message });
                subscription.next = subscription.after(now);
            }
        }
    }

    /// Returns the time of the next heartbeat.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.by_member.values().map(|it| it.next).min()
    }
}

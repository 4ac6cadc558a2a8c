//! A detector that receives heartbeats from the nodes under watch.

use alloc::collections::BTreeMap;
use core::fmt;
use core::time::Duration;

use super::message::{DetectorInput, DetectorMessage, DetectorOutput, Group};
use super::peer_table::{PeerTable, Step};
use super::{AskOptions, Detector, earliest};
use crate::{Instant, NodeId};

/// The number of renewals within a subscription's lifetime, so that a lost renewal does not end it.
pub(super) const RENEWALS: u32 = 3;

/// Subscribes to the heartbeats of a node under watch. An [`Estimator`] calculates the deadline of
/// the next heartbeat.
///
/// Every detector serves subscriptions: the node under watch need not run this one.
///
/// A subscription ends unless it is renewed, so a node stops sending to a subscriber that is gone.
/// The subscriber renews it at every interval while the node is suspected, and until the first
/// heartbeat has arrived: a node that restarted does not know its subscribers, and the first
/// subscription may be lost.
///
/// - Detection: see the estimators [`FixedTimeout`](super::FixedTimeout), [`Chen`](super::Chen) and
///   [`PhiAccrual`](super::PhiAccrual). Before the first heartbeat they allow one interval more.
/// - Messages: 1 per interval and watch, and 3 per lifetime for the subscription.
/// - A mistake requires that all heartbeats within the margin are lost or late.
///
/// Source: the "I'm alive" variant in section 2.2 of S.-H. Park, "An Election Algorithm with
/// Failure Detectors in Distributed Systems" (2008).
#[derive(Debug)]
pub struct Push<E: Estimator> {
    table: PeerTable,
    /// The interval of the heartbeats of a node under watch.
    interval: Duration,
    /// The lifetime of a subscription that is not renewed.
    lifetime: Duration,
    /// The initial state of each watch's estimator.
    estimator: E,
    watches: BTreeMap<NodeId, Watch<E>>,
}

/// Calculates the deadline of a node's next heartbeat from the earlier ones.
///
/// The trait is open: simulations implement it for their own estimators.
pub trait Estimator: Clone + fmt::Debug {
    /// Begins an observation at `now`, without any heartbeats yet.
    fn begin(&mut self, now: Instant);

    /// Observes the arrival of heartbeat `tick`, which is newer than all observed ones.
    fn observe(&mut self, now: Instant, tick: u64);

    /// Returns the time at which the node becomes suspected unless a heartbeat arrives.
    fn deadline(&self) -> Instant;

    /// Returns the longest detection time, if messages take at most `delay` and no message is lost.
    fn detection_bound(&self, delay: Duration) -> Duration;
}

/// Returns the lifetime of a subscription that is not renewed: 30 s, or 10 intervals if that is
/// longer.
pub(super) fn subscription_lifetime(interval: Duration) -> Duration {
    Duration::from_secs(30).max(interval.saturating_mul(10))
}

#[derive(Debug)]
struct Watch<E> {
    estimator: E,
    newest: Option<u64>,
    /// The time of the next renewal of the subscription.
    renew: Instant,
}

impl<E: Estimator> Push<E> {
    /// The default interval of heartbeats. A longer interval means fewer messages and later
    /// detection.
    pub const INTERVAL: Duration = Duration::from_millis(300);

    /// Creates the detector of a node. `estimator` is the initial state of each watch's estimator.
    #[must_use]
    pub fn new(group: &Group, ask: AskOptions, interval: Duration, estimator: E) -> Self {
        Self {
            table: PeerTable::new(group, ask),
            interval,
            lifetime: subscription_lifetime(interval),
            estimator,
            watches: BTreeMap::new(),
        }
    }

    fn begin(&mut self, now: Instant, node: NodeId) {
        let mut estimator = self.estimator.clone();
        estimator.begin(now);
        let watch = Watch {
            estimator,
            newest: None,
            renew: now,
        };
        self.watches.insert(node, watch);
        self.handle_timeout(now);
    }

    fn handle_heard(
        &mut self,
        now: Instant,
        from: NodeId,
        restarted: bool,
        message: Option<&DetectorMessage>,
    ) {
        if restarted && self.watches.contains_key(&from) {
            // The node's clock has a new origin, and the node does not know its subscribers.
            self.table.trust(from);
            self.begin(now, from);
        }
        if let Some(DetectorMessage::Heartbeat { tick }) = message {
            return self.handle_heartbeat(now, from, *tick);
        }
        if self.table.is_suspected(from) {
            // The node is alive although its heartbeats are missing, so it gets as much time as at
            // first.
            self.table.trust(from);
            self.begin(now, from);
        } else if let Some(watch) = self.watches.get_mut(&from)
            && watch.newest.is_none()
        {
            // The node is alive, but may have been down when the watch began, and missed the
            // subscription.
            watch.estimator.begin(now);
        }
    }

    fn handle_heartbeat(&mut self, now: Instant, from: NodeId, tick: u64) {
        let Some(watch) = self.watches.get_mut(&from) else {
            return;
        };
        if watch.newest.is_some_and(|newest| tick <= newest) {
            return; // The heartbeat is a duplicate, or older than one that has arrived.
        }
        if watch.newest.replace(tick).is_none() {
            watch.renew = now + self.lifetime / RENEWALS;
        }
        watch.estimator.observe(now, tick);
        // A heartbeat can be so late that the next one is overdue already.
        if now < watch.estimator.deadline() {
            self.table.trust(from);
        }
    }
}

impl<E: Estimator> Detector for Push<E> {
    fn handle_input(&mut self, now: Instant, input: DetectorInput) {
        match self.table.handle_input(now, input) {
            Step::Nothing => {}
            Step::Watch(node) => self.begin(now, node),
            Step::Unwatch(node) => {
                self.watches.remove(&node);
                self.table.send(node, DetectorMessage::Unsubscribe);
            }
            Step::Heard {
                from,
                restarted,
                message,
            } => self.handle_heard(now, from, restarted, message.as_ref()),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for node in self.table.handle_timeout(now) {
            self.table.suspect(now, node);
        }
        for (node, watch) in &mut self.watches {
            if !self.table.is_suspected(*node) && watch.estimator.deadline() <= now {
                self.table.find_silent(now, *node);
                watch.renew = now;
            }
            if watch.renew <= now {
                let (interval, lifetime) = (self.interval, self.lifetime);
                self.table
                    .send(*node, DetectorMessage::Subscribe { interval, lifetime });
                watch.renew = now
                    + if self.table.is_suspected(*node) || watch.newest.is_none() {
                        interval
                    } else {
                        lifetime / RENEWALS
                    };
            }
        }
    }

    fn poll_output(&mut self) -> Option<DetectorOutput> {
        self.table.poll_output()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let watches = self.watches.iter().flat_map(|(node, watch)| {
            let trusted = !self.table.is_suspected(*node);
            [
                Some(watch.renew),
                trusted.then(|| watch.estimator.deadline()),
            ]
        });
        earliest(watches.chain([self.table.poll_timeout()]))
    }

    fn is_suspected(&self, node: NodeId) -> bool {
        self.table.is_suspected(node)
    }

    fn detection_bound(&self, delay: Duration) -> Duration {
        self.estimator.detection_bound(delay)
    }
}

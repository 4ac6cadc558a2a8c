//! "I'm alive", sent by the node under watch.

use alloc::collections::BTreeMap;
use core::fmt;
use core::time::Duration;

use super::message::{DetectorInput, DetectorMessage, DetectorOutput, Group};
use super::options::{self, MAX_DURATION, MIN_INTERVAL, OptionsError};
use super::peer_table::{AskOptions, PeerTable, Step};
use super::{Detector, earliest};
use crate::{Instant, NodeId};

/// How many times a subscription is renewed within its lifetime: so many renewals may be lost.
pub(super) const RENEWALS: u32 = 3;

/// Subscribes to the heartbeats of a node under watch; an [`Estimator`] says from them until when the
/// next one must have come.
///
/// A node sends heartbeats at multiples of the interval **on its own clock**, whoever subscribed and
/// when. So heartbeat number `tick` was due at `tick` intervals after a fixed moment, which is what
/// estimators need, and it stays true across lapsed subscriptions, lost heartbeats and pauses.
///
/// A subscription ends by itself unless it is renewed, so a node does not go on sending to one that
/// is gone. It is renewed at every interval while the node is suspected, and until the first heartbeat
/// has come: a node that restarted does not know who subscribed, and the first one may be lost.
///
/// - Detection: see the estimators [`FixedTimeout`](super::FixedTimeout), [`Chen`](super::Chen) and
///   [`PhiAccrual`](super::PhiAccrual); before the first heartbeat they allow one interval more.
/// - Messages: 1 per interval and watch, and 3 per lifetime for the subscription.
/// - A mistake needs that the heartbeats of the whole margin are lost or late.
///
/// Source: the "I'm alive" variant in section 2.2 of S.-H. Park, "An Election Algorithm with Failure
/// Detectors in Distributed Systems" (2008).
#[derive(Debug)]
pub struct Push<E: Estimator> {
    desk: PeerTable,
    options: PushOptions,
    /// What each watch begins with.
    estimator: E,
    watches: BTreeMap<NodeId, Watch<E>>,
    subscribers: BTreeMap<NodeId, Subscription>,
}

/// The parameters of [`Push`], beside [`AskOptions`] and those of the estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushOptions {
    /// How often a node under watch sends a heartbeat. Default 300 ms. Longer: fewer messages, later
    /// detection.
    pub interval: Duration,
    /// How long a subscription lasts that is not renewed. Default 30 s, at least 6 intervals.
    pub lifetime: Duration,
}

impl Default for PushOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(300),
            lifetime: Duration::from_secs(30),
        }
    }
}

/// Says from the heartbeats of one node until when the next one must have come.
///
/// This trait is open, for estimators in simulations.
pub trait Estimator: Clone + fmt::Debug {
    /// The estimator's own parameters.
    type Options: Copy + fmt::Debug;

    /// An estimator for heartbeats at this interval.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] when the parameters are impossible at this interval; it names both numbers.
    fn new(interval: Duration, options: Self::Options) -> Result<Self, OptionsError>;

    /// Heartbeats are expected from `now` on; nothing is known of when they come.
    fn begin(&mut self, now: Instant);

    /// Heartbeat `tick` has come. It is newer than those before.
    fn observe(&mut self, now: Instant, tick: u64);

    /// From when on the node is suspected, unless a heartbeat comes.
    fn deadline(&self) -> Instant;

    /// The longest detection time while messages take at most `delay` and none is lost.
    fn detection_bound(&self, delay: Duration) -> Duration;
}

#[derive(Debug)]
struct Watch<E> {
    estimator: E,
    newest: Option<u64>,
    /// When to renew the subscription.
    renew: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Subscription {
    interval: Duration,
    until: Instant,
    next: Instant,
}

impl Subscription {
    /// The number of the interval in which `now` is.
    fn tick(self, now: Instant) -> u64 {
        now.as_nanos() / nanos(self.interval)
    }

    fn after(self, now: Instant) -> Instant {
        let tick = self.tick(now).saturating_add(1);
        Instant::from_nanos(tick.saturating_mul(nanos(self.interval)))
    }
}

/// An interval in nanoseconds: it is at most [`MAX_DURATION`].
fn nanos(interval: Duration) -> u64 {
    (Instant::default() + interval).as_nanos()
}

impl<E: Estimator> Push<E> {
    /// The detector of a node.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] when the parameters can't hold together; it names both numbers.
    pub fn new(
        group: &Group,
        ask: AskOptions,
        options: PushOptions,
        estimator: E::Options,
    ) -> Result<Self, OptionsError> {
        let desk = PeerTable::new(group, ask)?;
        options::duration("heartbeat interval", options.interval)?;
        options::duration("subscription lifetime", options.lifetime)?;
        options::at_least(
            "subscription lifetime",
            options.lifetime,
            "6 heartbeat intervals, ",
            options.interval * 2 * RENEWALS,
        )?;
        Ok(Self {
            desk,
            options,
            estimator: E::new(options.interval, estimator)?,
            watches: BTreeMap::new(),
            subscribers: BTreeMap::new(),
        })
    }

    /// What is known of a node under watch, for instance its level of suspicion.
    #[must_use]
    pub fn estimator(&self, node: NodeId) -> Option<&E> {
        self.watches.get(&node).map(|watch| &watch.estimator)
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
        if restarted {
            // Its clock has another origin, and it does not know its subscribers.
            self.subscribers.remove(&from);
            if self.watches.contains_key(&from) {
                self.desk.trust(from);
                self.begin(now, from);
            }
        }
        if let Some(DetectorMessage::Heartbeat { tick }) = message {
            return self.handle_heartbeat(now, from, *tick);
        }
        if self.desk.is_suspected(from) {
            // It lives, whatever became of its heartbeats: it has as much time as at first.
            self.desk.trust(from);
            self.begin(now, from);
        } else if let Some(watch) = self.watches.get_mut(&from)
            && watch.newest.is_none()
        {
            // It lives, and perhaps did not when the watch began: nor did it hear the subscription then.
            watch.estimator.begin(now);
        }
        match message {
            Some(DetectorMessage::Subscribe { interval, lifetime }) => {
                self.subscribe(now, from, *interval, *lifetime);
            }
            Some(DetectorMessage::Unsubscribe) => {
                self.subscribers.remove(&from);
            }
            _ => {}
        }
    }

    fn handle_heartbeat(&mut self, now: Instant, from: NodeId, tick: u64) {
        let Some(watch) = self.watches.get_mut(&from) else {
            return;
        };
        if watch.newest.is_some_and(|newest| tick <= newest) {
            return; // A duplicate, or overtaken by a newer one.
        }
        if watch.newest.replace(tick).is_none() {
            watch.renew = now + self.options.lifetime / RENEWALS;
        }
        watch.estimator.observe(now, tick);
        // A heartbeat can be so late that the next one is overdue already.
        if now < watch.estimator.deadline() {
            self.desk.trust(from);
        }
    }

    /// What a subscriber wants is kept within what is possible: it may run another version.
    fn subscribe(&mut self, now: Instant, from: NodeId, interval: Duration, lifetime: Duration) {
        let mut subscription = Subscription {
            interval: interval.clamp(MIN_INTERVAL, MAX_DURATION),
            until: now + lifetime.min(MAX_DURATION),
            next: now,
        };
        subscription.next = match self.subscribers.get(&from) {
            Some(old) if old.interval == subscription.interval => old.next,
            _ => subscription.after(now),
        };
        self.subscribers.insert(from, subscription);
    }
}

impl<E: Estimator> Detector for Push<E> {
    fn handle_input(&mut self, now: Instant, input: DetectorInput) {
        match self.desk.handle_input(now, input) {
            Step::Nothing => {}
            Step::Watch(node) => self.begin(now, node),
            Step::Unwatch(node) => {
                self.watches.remove(&node);
                self.desk.send(node, DetectorMessage::Unsubscribe);
            }
            Step::Heard {
                from,
                restarted,
                message,
            } => self.handle_heard(now, from, restarted, message.as_ref()),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for node in self.desk.handle_timeout(now) {
            self.desk.suspect(now, node);
        }
        for (node, watch) in &mut self.watches {
            if !self.desk.is_suspected(*node) && watch.estimator.deadline() <= now {
                self.desk.find_silent(now, *node);
                watch.renew = now;
            }
            if watch.renew <= now {
                let PushOptions { interval, lifetime } = self.options;
                self.desk
                    .send(*node, DetectorMessage::Subscribe { interval, lifetime });
                watch.renew = now
                    + if self.desk.is_suspected(*node) || watch.newest.is_none() {
                        interval
                    } else {
                        lifetime / RENEWALS
                    };
            }
        }
        self.subscribers.retain(|_, it| now < it.until);
        for (node, subscription) in &mut self.subscribers {
            if subscription.next <= now {
                let tick = subscription.tick(now);
                self.desk.send(*node, DetectorMessage::Heartbeat { tick });
                subscription.next = subscription.after(now);
            }
        }
    }

    fn poll_output(&mut self) -> Option<DetectorOutput> {
        self.desk.poll_output()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let watches = self.watches.iter().flat_map(|(node, watch)| {
            let trusted = !self.desk.is_suspected(*node);
            [
                Some(watch.renew),
                trusted.then(|| watch.estimator.deadline()),
            ]
        });
        let heartbeats = self.subscribers.values().map(|it| Some(it.next));
        earliest(watches.chain(heartbeats).chain([self.desk.poll_timeout()]))
    }

    fn is_suspected(&self, node: NodeId) -> bool {
        self.desk.is_suspected(node)
    }

    fn detection_bound(&self, delay: Duration) -> Duration {
        self.estimator.detection_bound(delay)
    }
}

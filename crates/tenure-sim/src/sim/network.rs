//! The network between the hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use tenure_core::NodeId;

use super::{Rng, Sending, Time};

/// The latency of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Always this time.
    Constant(Duration),
    /// Uniform between the two.
    Uniform(Duration, Duration),
    /// The first duration, plus an exponentially distributed time with the second as its mean.
    Exponential(Duration, Duration),
}

impl Latency {
    /// Returns a random latency.
    pub fn draw(self, rng: &mut Rng) -> Duration {
        match self {
            Self::Constant(latency) => latency,
            Self::Uniform(least, end) => rng.between(least, end),
            Self::Exponential(least, mean) => least + rng.exponential(mean),
        }
    }
}

/// A link from one host to another. Messages may overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The latency.
    pub latency: Latency,
    /// The number of lost messages in a million.
    pub loss: u32,
    /// The number of messages in a million that arrive twice.
    pub repeats: u32,
    /// The number of late messages in a million, including repeated ones, and their longest delay.
    pub late: (u32, Duration),
}

impl Link {
    /// A link without delay and loss.
    pub const AT_ONCE: Self = Self {
        latency: Latency::Constant(Duration::ZERO),
        loss: 0,
        repeats: 0,
        late: (0, Duration::ZERO),
    };
}

impl Default for Link {
    /// Returns the link of a quiet local network: 0.5 to 1.5 ms, without losses.
    fn default() -> Self {
        Self {
            latency: Latency::Uniform(Duration::from_micros(500), Duration::from_micros(1_500)),
            ..Self::AT_ONCE
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            latency,
            loss,
            repeats,
            late: (late, _),
        } = self;
        write!(
            f,
            "{latency:?}, {loss} in a million lost, {repeats} twice, {late} late"
        )
    }
}

/// All links between the hosts.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// The links of all kinds of messages without their own link.
    pub everywhere: Link,
    /// The way in which hosts send.
    pub sending: Sending,
    /// The links of messages of one kind.
    kinds: BTreeMap<(&'static str, NodeId, NodeId), Link>,
    /// The links to and from some hosts.
    hosts: BTreeMap<NodeId, Link>,
    cuts: BTreeSet<(NodeId, NodeId)>,
    /// Whether messages from one host to another keep their order.
    pub in_order: bool,
    /// The last arrival on each link, if messages keep their order.
    arrivals: BTreeMap<(NodeId, NodeId), Time>,
}

impl Network {
    /// Sets the link for messages of one kind.
    pub fn set_kind(&mut self, kind: &'static str, from: NodeId, to: NodeId, link: Link) {
        self.kinds.insert((kind, from, to), link);
    }

    /// Sets all links to and from this host, or makes them as all others.
    pub fn set_host(&mut self, host: NodeId, link: Option<Link>) {
        match link {
            Some(link) => self.hosts.insert(host, link),
            None => self.hosts.remove(&host),
        };
    }

    /// Cuts the link from one host to another.
    pub fn cut(&mut self, from: NodeId, to: NodeId) {
        self.cuts.insert((from, to));
    }

    /// Restores all links.
    pub fn heal(&mut self) {
        self.cuts.clear();
    }

    /// Restores all links and the default latencies.
    pub(super) fn calm(&mut self) {
        self.heal();
        self.kinds.clear();
        self.hosts.clear();
        self.everywhere = Link::default();
    }

    /// Returns whether the link is not cut.
    #[must_use]
    pub fn is_open(&self, from: NodeId, to: NodeId) -> bool {
        !self.cuts.contains(&(from, to))
    }

    fn link(&self, kind: &'static str, from: NodeId, to: NodeId) -> &Link {
        let of_kind = self.kinds.get(&(kind, from, to));
        let of_host = || [from, to].iter().find_map(|host| self.hosts.get(host));
        of_kind.or_else(of_host).unwrap_or(&self.everywhere)
    }

    /// Returns whether messages of every kind arrive as in a network without faults.
    #[must_use]
    pub fn is_clean(&self, from: NodeId, to: NodeId) -> bool {
        let of_kinds = self.kinds.keys();
        let has_kind = of_kinds.into_iter().any(|key| (key.1, key.2) == (from, to));
        self.is_open(from, to) && !has_kind && *self.link("", from, to) == Link::default()
    }

    /// Returns the time at which a message arrives that needs until `at`: not before earlier messages
    /// on the same link, if messages keep their order.
    pub(super) fn arrival(&mut self, link: (NodeId, NodeId), at: Time) -> Time {
        if !self.in_order {
            return at;
        }
        let last = self.arrivals.entry(link).or_default();
        *last = at.max(*last);
        *last
    }

    /// Returns the delays of a message of this kind and of its copy. `None` stands for a lost
    /// message, or for no copy.
    pub(super) fn delays(
        &self,
        kind: &'static str,
        (from, to): (NodeId, NodeId),
        rng: &mut Rng,
    ) -> [Option<Duration>; 2] {
        let link = self.link(kind, from, to);
        let mut one = || {
            let (late, by) = link.late;
            let late = rng.happens(late).then(|| rng.between(Duration::ZERO, by));
            link.latency.draw(rng) + late.unwrap_or_default()
        };
        let (first, second) = (one(), one());
        [
            (!rng.happens(link.loss)).then_some(first),
            rng.happens(link.repeats).then_some(second),
        ]
    }
}

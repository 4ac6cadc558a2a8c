//! What lies between the machines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use tenure_core::NodeId;

use super::{Rng, Sending};

/// How long a message takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Always so long.
    Constant(Duration),
    /// At least the first, below the second, all alike.
    Uniform(Duration, Duration),
    /// At least the first, and then exponentially distributed with the second as mean.
    Exponential(Duration, Duration),
}

impl Latency {
    pub(crate) fn draw(self, rng: &mut Rng) -> Duration {
        match self {
            Self::Constant(latency) => latency,
            Self::Uniform(least, end) => rng.between(least, end),
            Self::Exponential(least, mean) => least + rng.exponential(mean),
        }
    }
}

/// One way from one machine to another. Messages on it overtake each other as their latencies say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// How long a message takes.
    pub latency: Latency,
    /// How many messages in a million are lost.
    pub loss: u32,
    /// How many in a million come a second time.
    pub repeats: u32,
    /// How many in a million are late, and by how much at most, the repeated ones too.
    pub late: (u32, Duration),
}

impl Default for Link {
    /// A quiet local network: half a millisecond to a millisecond and a half, nothing is lost.
    fn default() -> Self {
        Self {
            latency: Latency::Uniform(Duration::from_micros(500), Duration::from_micros(1_500)),
            loss: 0,
            repeats: 0,
            late: (0, Duration::ZERO),
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

/// All ways between the machines.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// What holds for ways that are not set by themselves.
    pub everywhere: Link,
    /// How machines send.
    pub sending: Sending,
    links: BTreeMap<(NodeId, NodeId), Link>,
    /// Messages of one kind that go another way than the rest.
    kinds: BTreeMap<(&'static str, NodeId, NodeId), Link>,
    cuts: BTreeSet<(NodeId, NodeId)>,
}

impl Network {
    /// Sets one way by itself.
    pub fn set(&mut self, from: NodeId, to: NodeId, link: Link) {
        self.links.insert((from, to), link);
    }

    /// Sets the way of one kind of message by itself.
    pub fn set_kind(&mut self, kind: &'static str, from: NodeId, to: NodeId, link: Link) {
        self.kinds.insert((kind, from, to), link);
    }

    /// Nothing gets from the one to the other any more.
    pub fn cut(&mut self, from: NodeId, to: NodeId) {
        self.cuts.insert((from, to));
    }

    /// Everything gets everywhere again.
    pub fn heal(&mut self) {
        self.cuts.clear();
    }

    /// All ways are alike and as they were at first, and open.
    pub(super) fn calm(&mut self) {
        self.heal();
        self.kinds.clear();
        self.everywhere = Link::default();
    }

    /// Whether anything gets from the one to the other.
    #[must_use]
    pub fn is_open(&self, from: NodeId, to: NodeId) -> bool {
        self.cuts.is_empty() || !self.cuts.contains(&(from, to))
    }

    fn link(&self, kind: &'static str, from: NodeId, to: NodeId) -> &Link {
        if !self.kinds.is_empty()
            && let Some(link) = self.kinds.get(&(kind, from, to))
        {
            return link;
        }
        if self.links.is_empty() {
            return &self.everywhere;
        }
        self.links.get(&(from, to)).unwrap_or(&self.everywhere)
    }

    /// After how long a message of this kind arrives: never, once, or twice.
    pub(super) fn deliveries(
        &self,
        kind: &'static str,
        (from, to): (NodeId, NodeId),
        rng: &mut Rng,
    ) -> Deliveries {
        let link = self.link(kind, from, to);
        let mut one = || {
            let (late, by) = link.late;
            let late = rng.happens(late).then(|| rng.between(Duration::ZERO, by));
            link.latency.draw(rng) + late.unwrap_or_default()
        };
        let (first, second) = (one(), one());
        Deliveries {
            first: (!rng.happens(link.loss)).then_some(first),
            second: rng.happens(link.repeats).then_some(second),
        }
    }
}

/// After how long a message arrives, and its copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deliveries {
    pub(super) first: Option<Duration>,
    pub(super) second: Option<Duration>,
}

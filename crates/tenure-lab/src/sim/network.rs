//! The network between the hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use tenure_core::NodeId;

use super::{Rng, Sending};

/// The latency of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Always this time.
    Constant(Duration),
    /// Uniform between the two.
    Uniform(Duration, Duration),
    /// The first, and an exponentially distributed time with the second as its mean.
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

/// A link from one host to another. Messages may overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The latency.
    pub latency: Latency,
    /// How many messages in a million are lost.
    pub loss: u32,
    /// How many in a million arrive twice.
    pub repeats: u32,
    /// How many in a million are late, repeated ones included, and by how much at most.
    pub late: (u32, Duration),
}

impl Link {
    /// Nothing is late and nothing is lost.
    pub const AT_ONCE: Self = Self {
        latency: Latency::Constant(Duration::ZERO),
        loss: 0,
        repeats: 0,
        late: (0, Duration::ZERO),
    };
}

impl Default for Link {
    /// A quiet local network: 0.5 to 1.5 ms, without losses.
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
    /// The links for all other messages.
    pub everywhere: Link,
    /// How hosts send.
    pub sending: Sending,
    /// Links for messages of one kind.
    kinds: BTreeMap<(&'static str, NodeId, NodeId), Link>,
    cuts: BTreeSet<(NodeId, NodeId)>,
}

impl Network {
    /// Sets the link for messages of one kind.
    pub fn set_kind(&mut self, kind: &'static str, from: NodeId, to: NodeId, link: Link) {
        self.kinds.insert((kind, from, to), link);
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
        self.everywhere = Link::default();
    }

    /// Whether the link is not cut.
    #[must_use]
    pub fn is_open(&self, from: NodeId, to: NodeId) -> bool {
        !self.cuts.contains(&(from, to))
    }

    fn link(&self, kind: &'static str, from: NodeId, to: NodeId) -> &Link {
        let of_kind = self.kinds.get(&(kind, from, to));
        of_kind.unwrap_or(&self.everywhere)
    }

    /// The delays of a message of this kind and of its copy; `None`: lost, or no copy.
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

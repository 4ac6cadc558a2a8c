//! Older algorithms, for comparison only. Do not use them for an election.
//!
//! They have no epochs and no quorum, and number elections only if their papers do. Each of them
//! cancels its task when it learns of another leader. The textbook's algorithm and the ring use the
//! library's on-demand failure detector, Bully_FD uses that of its papers, and Garcia-Molina's
//! algorithm calls the other members itself.
//!
//! An algorithm implements [`Baseline`], and has a variant of [`OlderAlgorithm`].

pub mod calls_at_once;
pub mod garcia_molina;
pub mod ring;
pub mod textbook;

mod published;

mod node;

#[cfg(test)]
mod tests;

pub use calls_at_once::CallsAtOnce;
pub use garcia_molina::GarciaMolina;
pub use node::BaselineNode;
pub use published::{
    Published, PublishedInput, PublishedMember, PublishedMessage, PublishedStatus,
};
pub use ring::Ring;
pub use textbook::Textbook;

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use tenure_core::detector::{Detector, DetectorOutput, OnDemand};
use tenure_core::{Incarnation, Instant, NodeId};
use tenure_sim::contestant::{Algorithm, OtherAlgorithm, OtherMember};
use tenure_sim::sim::{Context, DurableState, LeadershipClaim, Process, ProcessInput, SimMessage};

/// The timings of all baselines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaselineTimings {
    /// The time to wait for an answer.
    pub timeout: Duration,
    /// The interval at which a member checks the leader, and the leader checks the others.
    pub poll: Duration,
}

/// A member of an older algorithm. A box of it is a [`Process`], which adds the common behaviour.
pub trait Baseline: fmt::Debug {
    /// Returns the part that all algorithms share.
    fn node(&self) -> &BaselineNode;

    /// Returns the shared part for changes.
    fn node_mut(&mut self) -> &mut BaselineNode;

    /// Starts the member, which knows no leader.
    fn start(&mut self, context: &mut Context<'_>);

    /// Starts the member as one that has followed this leader for a long time.
    fn settle(&mut self, context: &mut Context<'_>, leader: NodeId);

    /// Handles a message, if there is one, and then the timers that are due.
    fn step(&mut self, context: &mut Context<'_>, message: Option<(NodeId, Rc<dyn SimMessage>)>);

    /// Handles a suspicion of the failure detector.
    fn handle_suspected(&mut self, _: &mut Context<'_>, _: NodeId) {}

    /// Returns the latest time at which the algorithm must run again.
    fn due(&self) -> Option<Instant>;

    /// Begins an election, as if the member had found its leader down.
    fn elect(&mut self, context: &mut Context<'_>);

    /// Puts these members, which are down, on the member's down list, if it has one.
    fn list(&mut self, _: &[NodeId]) {}
}

impl Process for Box<dyn Baseline> {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        let message = self.node_mut().handle(context, input);
        self.step(context, message);
        while let Some(report) = self.node_mut().poll_detector(context) {
            if let DetectorOutput::Suspected(node) | DetectorOutput::Restarted(node, _) = report {
                self.handle_suspected(context, node);
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let detector = self.node().detector.as_ref();
        let detector = detector.and_then(OnDemand::poll_timeout);
        [self.due(), detector].into_iter().flatten().min()
    }

    fn claim(&self, _now: Instant) -> Option<LeadershipClaim> {
        self.node().leads().then_some(LeadershipClaim {
            epoch: None,
            until: None,
        })
    }
}

/// An older algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OlderAlgorithm {
    /// Bully_FD as published.
    Published,
    /// Garcia-Molina's Bully algorithm, which makes one call after the other.
    GarciaMolina,
    /// The same with all calls of a phase at once.
    CallsAtOnce,
    /// The Bully algorithm of textbooks.
    Textbook,
    /// The ring algorithm of Chang and Roberts.
    Ring,
}

impl OlderAlgorithm {
    /// All of them, as contestants.
    pub const ALL: [Algorithm; 5] = [
        Algorithm::Other(&Self::Published),
        Algorithm::Other(&Self::GarciaMolina),
        Algorithm::Other(&Self::CallsAtOnce),
        Algorithm::Other(&Self::Textbook),
        Algorithm::Other(&Self::Ring),
    ];

    /// Creates a member. `incarnation` counts its starts.
    pub(crate) fn member(
        self,
        (me, incarnation): (NodeId, u64),
        members: Vec<NodeId>,
        timings: BaselineTimings,
        durable: Option<&DurableState>,
    ) -> Box<dyn Baseline> {
        let node = |incarnation| BaselineNode::new(me, members, timings, Incarnation(incarnation));
        match self {
            Self::Published => {
                let starts = durable.and_then(|it| it.downcast_ref::<Starts>());
                let incarnation = starts.map_or(1, |Starts(starts)| starts + 1);
                Box::new(PublishedMember::new(node(incarnation)))
            }
            Self::GarciaMolina => Box::new(GarciaMolina::new(node(incarnation))),
            Self::CallsAtOnce => Box::new(CallsAtOnce::new(node(incarnation))),
            Self::Textbook => Box::new(Textbook::new(node(incarnation))),
            Self::Ring => Box::new(Ring::new(node(incarnation))),
        }
    }
}

impl OtherAlgorithm for OlderAlgorithm {
    fn name(&self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::GarciaMolina => "garcia-molina",
            Self::CallsAtOnce => "garcia-molina-at-once",
            Self::Textbook => "textbook",
            Self::Ring => "chang-roberts",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Self::Published => "Bully_FD as published",
            Self::GarciaMolina => "the Bully algorithm of Garcia-Molina: one call after the other",
            Self::CallsAtOnce => "the same with all calls of a phase at once",
            Self::Textbook => "the Bully algorithm of textbooks",
            Self::Ring => "the ring of Chang and Roberts",
        }
    }

    fn has_model_of_papers(&self) -> bool {
        *self != Self::Ring
    }

    fn start(&self, it: OtherMember<'_>, context: &mut Context<'_>) -> Box<dyn Process> {
        let timings = BaselineTimings {
            timeout: it.timeout,
            poll: it.poll,
        };
        let mut member = self.member((it.me, it.incarnation), it.members, timings, it.durable);
        member.start(context);
        Box::new(member)
    }
}

/// How often a member has started, which it remembers on disk.
#[derive(Debug)]
struct Starts(u64);

//! Older algorithms, for comparison only. Do not use them for an election.
//!
//! They have no epochs and no quorum, and number elections only if their papers do. Each of them
//! cancels its task when it learns of another leader. The textbook's algorithm and the ring use the
//! library's on-demand failure detector, Bully_FD uses that of its papers, and Garcia-Molina's
//! algorithm calls the other members itself.
//!
//! An algorithm implements [`Baseline`]; `member` creates its members.

pub mod calls_at_once;
pub mod garcia_molina;
pub mod ring;
pub mod textbook;

mod published;

mod node;

pub use calls_at_once::CallsAtOnce;
pub use garcia_molina::GarciaMolina;
pub use node::BaselineNode;
pub use published::{
    Published, PublishedInput, PublishedMember, PublishedMessage, PublishedStatus,
};
pub use ring::Ring;
pub use textbook::Textbook;

use std::fmt;
use std::time::Duration;

use tenure_core::detector::{Detector, DetectorOutput, OnDemand};
use tenure_core::{Incarnation, Instant, NodeId};

use crate::contestant::Algorithm;
use crate::sim::{Context, DurableState, LeadershipClaim, Payload, Process, ProcessInput};

/// The timings of all baselines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaselineTimings {
    /// The time to wait for an answer.
    pub timeout: Duration,
    /// The interval at which a member checks the leader, and the leader checks the others.
    pub poll: Duration,
}

/// A member of an older algorithm. The blanket implementation of [`Process`] adds the common
/// behaviour.
pub trait Baseline: fmt::Debug + Process {
    /// Returns the part that all algorithms share.
    fn node(&self) -> &BaselineNode;

    /// Returns the shared part for changes.
    fn node_mut(&mut self) -> &mut BaselineNode;

    /// Starts the member, which knows no leader.
    fn start(&mut self, context: &mut Context<'_>);

    /// Starts the member as one that has followed this leader for a long time.
    fn settle(&mut self, context: &mut Context<'_>, leader: NodeId);

    /// Handles a message, if there is one, and then the timers that are due.
    fn step(&mut self, context: &mut Context<'_>, message: Option<(NodeId, Payload)>);

    /// Handles a suspicion of the failure detector.
    fn handle_suspected(&mut self, _: &mut Context<'_>, _: NodeId) {}

    /// Returns the latest time at which the algorithm must run again.
    fn due(&self) -> Option<Instant>;

    /// Begins an election, as if the member had found its leader down.
    fn elect(&mut self, context: &mut Context<'_>);

    /// Puts these members, which are down, on the member's down list, if it has one.
    fn list(&mut self, _: &[NodeId]) {}
}

impl<B: Baseline> Process for B {
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

/// Creates a member of this algorithm, which must be an older one. `incarnation` counts its starts.
pub(crate) fn member(
    algorithm: Algorithm,
    (me, incarnation): (NodeId, u64),
    members: Vec<NodeId>,
    timings: BaselineTimings,
    durable: Option<&DurableState>,
) -> Box<dyn Baseline> {
    let node = |incarnation| BaselineNode::new(me, members, timings, Incarnation(incarnation));
    match algorithm {
        Algorithm::Published => Box::new(PublishedMember::new(node(match durable {
            Some(DurableState::Starts(starts)) => starts + 1,
            _ => 1,
        }))),
        Algorithm::GarciaMolina => Box::new(GarciaMolina::new(node(incarnation))),
        Algorithm::CallsAtOnce => Box::new(CallsAtOnce::new(node(incarnation))),
        Algorithm::Textbook => Box::new(Textbook::new(node(incarnation))),
        Algorithm::Ring => Box::new(Ring::new(node(incarnation))),
        Algorithm::Lease
        | Algorithm::Cluster
        | Algorithm::Bully { .. }
        | Algorithm::Joint { .. }
        | Algorithm::Fallback { .. } => {
            unreachable!("{algorithm:?} is an algorithm of the library")
        }
    }
}

//! The processes of one contestant.

use std::time::Duration;

use tenure_core::bully::{
    GroupGuarantee, GroupSettings, GroupTimings, Member as BullyMember, Membership,
};
use tenure_core::detector::{
    AskOptions, DetectBy, Detection, DetectionOptions, Group, OptionsError,
};
use tenure_core::{Incarnation, Instant, NodeId};

use super::candidate::Candidate;
use super::member::{Member, Setup};
use super::store::Store;
use super::{Algorithm, Contestant, DetectorKind};
use crate::baseline::{BaselineTimings, Classic, PublishedMember, Ring, Textbook};
use crate::detector::{AttendanceRing, AttendanceRingOptions, SimDetector};
use crate::fault::Mutation;
use crate::sim::{Context, DurableState, Process, ProcessFactory};

/// Where the store is.
const STORE: NodeId = NodeId(0);

/// The same with the mistake. Only a test build has machines that can make one.
fn mutated(settings: GroupSettings, mutation: Option<Mutation>) -> GroupSettings {
    #[cfg(feature = "mutations")]
    let settings = mutation
        .iter()
        .flat_map(|mutation| mutation.without())
        .fold(settings, GroupSettings::without);
    #[cfg(not(feature = "mutations"))]
    let _ = mutation;
    settings
}

/// One contestant on so many machines; with lease mode, one more for the store.
#[derive(Clone, Debug)]
pub struct Cluster {
    contestant: Contestant,
    nodes: u32,
    mutation: Option<Mutation>,
    watches: bool,
    members: Membership,
    timings: GroupTimings,
}

impl Cluster {
    /// This contestant on so many machines, numbered from 1, the best one first.
    ///
    /// # Panics
    ///
    /// If the contestant's timings can't hold together, or there is no machine.
    #[must_use]
    pub fn new(contestant: Contestant, nodes: u32) -> Self {
        let member = |id| BullyMember {
            id: NodeId(id),
            priority: 0,
        };
        let members = Membership::of_any_size((1..=nodes).map(member));
        let timings = GroupTimings::new(contestant.term, &contestant.peers);
        Self {
            contestant,
            nodes,
            mutation: None,
            watches: true,
            members: members.expect("one machine or more"),
            timings: timings.expect("timings that were checked"),
        }
    }

    /// The same with a mistake.
    #[must_use]
    pub fn with_mutation(self, mutation: Option<Mutation>) -> Self {
        Self { mutation, ..self }
    }

    /// The same, in which members ask about those whom they need to know about, and watch nobody. As
    /// the papers have it; with a thousand members all pairs would be a million watches.
    #[must_use]
    pub fn watching_nobody(self) -> Self {
        Self {
            watches: false,
            ..self
        }
    }

    /// How long a message may be under way.
    #[must_use]
    pub const fn message_lifetime(&self) -> Duration {
        self.timings.message_lifetime()
    }

    fn settings(&self, node: NodeId, quorum: bool) -> GroupSettings {
        let settings = GroupSettings::new(node, self.members.clone(), self.timings);
        let settings = settings
            .expect("one of the machines")
            .with_guarantee(if quorum {
                GroupGuarantee::Quorum
            } else {
                GroupGuarantee::BestEffort
            })
            .with_preempt(self.contestant.preempt);
        mutated(settings, self.mutation)
    }

    fn detector(
        &self,
        kind: DetectorKind,
        group: &Group,
        now: Instant,
    ) -> Result<SimDetector, OptionsError> {
        let by = match kind {
            DetectorKind::Of(by) => by,
            DetectorKind::AttendanceRing => DetectBy::default(),
        };
        let options = DetectionOptions {
            by,
            ..self.contestant.detection
        };
        let detection = Detection::new(&options, self.timings.message_lifetime())?;
        if let DetectorKind::Of(_) = kind {
            return Ok(SimDetector::Library(detection.detector(group)));
        }
        let ask = AskOptions {
            timeout: detection.ask_timeout(),
            confirm: detection.confirm_timeout(),
            ..AskOptions::default()
        };
        let defaults = AttendanceRingOptions::default();
        let round = defaults.hold * self.nodes;
        let options = AttendanceRingOptions {
            list_timeout: defaults.list_timeout.max(round * 3),
            ..defaults
        };
        let ring = AttendanceRing::new(now, group, ask, options)?;
        Ok(SimDetector::AttendanceRing(Box::new(ring)))
    }

    fn timings(&self) -> BaselineTimings {
        let ask = AskOptions::default();
        BaselineTimings {
            timeout: self.timings.message_lifetime(),
            poll: Duration::from_secs(1),
            pings: ask.pings,
            fresh: ask.fresh,
        }
    }
}

impl ProcessFactory for Cluster {
    fn machines(&self) -> Vec<NodeId> {
        let store = (self.contestant.algorithm == Algorithm::Lease).then_some(STORE);
        let members = (1..=self.nodes).map(NodeId);
        store.into_iter().chain(members).collect()
    }

    fn is_store(&self, node: NodeId) -> bool {
        node == STORE
    }

    fn counts_suspensions(&self, node: NodeId) -> bool {
        !self.is_store(node) && self.mutation != Some(Mutation::ClockStopsWhenSuspended)
    }

    fn start(
        &self,
        node: NodeId,
        life: u64,
        stable: Option<&DurableState>,
        context: &mut Context<'_>,
    ) -> Box<dyn Process> {
        let all = || (1..=self.nodes).map(NodeId).collect();
        let (term, mutation) = (self.contestant.term, self.mutation);
        match self.contestant.algorithm {
            Algorithm::Lease if node == STORE => {
                Box::new(Store::start(&term, mutation, stable, context))
            }
            Algorithm::Lease => {
                Box::new(Candidate::start(node, STORE, life, term, mutation, context))
            }
            Algorithm::Bully { detector, quorum } => {
                let settings = self.settings(node, quorum);
                let make = |now, incarnation: Incarnation| {
                    let group = Group::new(node, incarnation, self.members.iter());
                    let detector = self.detector(detector, &group, now);
                    detector.expect("parameters that were checked")
                };
                let setup = Setup {
                    settings,
                    watches: self.watches,
                    mutation,
                };
                Box::new(Member::start(setup, make, stable, context))
            }
            Algorithm::Published => {
                let members = self.members.clone();
                let timings = self.timings();
                Box::new(PublishedMember::start(
                    node, members, timings, stable, context,
                ))
            }
            Algorithm::Classic => {
                Box::new(Classic::start(node, all(), self.timings(), life, context))
            }
            Algorithm::Textbook => {
                Box::new(Textbook::start(node, all(), self.timings(), life, context))
            }
            Algorithm::Ring => Box::new(Ring::start(node, all(), self.timings(), life, context)),
        }
    }

    fn stop_allowances(&self) -> (Duration, Duration) {
        let term = &self.contestant.term;
        (term.stop_grace(), term.abort_allowance())
    }
}

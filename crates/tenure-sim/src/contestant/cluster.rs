//! The processes of one contestant.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tenure_core::bully::{
    GroupGuarantee, GroupSettings, GroupTimings, HardState, Member, Membership, PeerCandidate,
    Quorums, Started,
};
use tenure_core::detector::{AskOptions, DetectBy, Detection, Group, OptionsError};
use tenure_core::election::AnyMachine;
use tenure_core::election::fallback::FallbackCandidate;
use tenure_core::election::joint::Joint;
use tenure_core::lease::candidate::LeaseCandidate;
use tenure_core::{Incarnation, Instant, NodeId};

use super::candidate::Candidate;
use super::log_home::Home;
use super::peer_link::{PeerLink, SimDetector};
use super::server::{self, SERVERS, Server};
use super::store::Store;
use super::store_client::{StoreClient, name_of};
use super::{Algorithm, Contestant, DetectorKind, MIXED, OtherMember};
use crate::sim::{Context, DurableState, Process, ProcessFactory};

/// The host of the store, or of the home of the log that the servers of a store share.
const STORE: NodeId = NodeId(0);

/// The rule by which the members of a group elect.
#[derive(Clone, Copy, Debug)]
enum MemberRule {
    BestEffort,
    Majority,
    Quorums(Quorums),
}

impl MemberRule {
    const fn of(quorum: bool) -> Self {
        if quorum {
            Self::Majority
        } else {
            Self::BestEffort
        }
    }
}

/// One contestant on a number of hosts, with an additional host for the store if it needs one.
#[derive(Clone, Debug)]
pub struct Cluster {
    contestant: Contestant,
    nodes: u32,
    /// The hosts that use another algorithm from their next start on.
    algorithms: BTreeMap<NodeId, Algorithm>,
    watches: bool,
    members: Membership,
    timings: GroupTimings,
}

impl Cluster {
    /// Creates the cluster of this contestant with this number of hosts, numbered from 1, the best
    /// one first.
    ///
    /// # Panics
    ///
    /// If the contestant's timings contradict each other, or if `nodes` is zero.
    #[must_use]
    pub fn new(contestant: Contestant, nodes: u32) -> Self {
        let member = |id| Member {
            id: NodeId(id),
            priority: 0,
        };
        let members = Membership::of_any_size((1..=nodes).map(member));
        let timings = GroupTimings::new(contestant.term, &contestant.peers);
        Self {
            contestant,
            nodes,
            algorithms: BTreeMap::new(),
            watches: true,
            members: members.expect("one host or more"),
            timings: timings.expect("timings that were checked"),
        }
    }

    /// Returns the same cluster, in which members do not watch each other and only ask when they
    /// need to know, as in the papers. With a thousand members there would be a million watches.
    #[must_use]
    pub fn without_watches(self) -> Self {
        Self {
            watches: false,
            ..self
        }
    }

    /// Returns the longest time that a message may be under way.
    #[must_use]
    pub const fn message_lifetime(&self) -> Duration {
        self.timings.message_lifetime()
    }

    /// Returns the longest time without a leader while a quorum is connected and nothing changes,
    /// as the library prints it.
    #[must_use]
    pub fn worst_without_leader(&self) -> Duration {
        match self.contestant.algorithm {
            Algorithm::Fallback { .. } => self.timings.worst_with_fallback(),
            Algorithm::Lease => self.timings.term().worst_without_leader(),
            Algorithm::Cluster => {
                let ownership = server::ownership_timings(self.timings.term());
                let take_over = ownership.ownership() + ownership.settle() + ownership.poll();
                self.timings.term().worst_without_leader() + take_over
            }
            _ => self.timings.worst_without_leader(),
        }
    }

    fn settings(&self, node: NodeId, rule: MemberRule) -> GroupSettings {
        let settings = GroupSettings::new(node, self.members.clone(), self.timings);
        let settings = settings.expect("one of the hosts");
        let settings = match rule {
            MemberRule::Majority => settings.with_guarantee(GroupGuarantee::Quorum),
            MemberRule::BestEffort => settings.with_guarantee(GroupGuarantee::BestEffort),
            MemberRule::Quorums(quorums) => settings.with_quorums(quorums),
        };
        settings.with_preempt(self.contestant.preempt)
    }

    /// Returns the quorums of a fallback with this number of members beside the store.
    fn fallback(&self, k: Option<usize>, without_store: bool) -> Quorums {
        let members = self.members.len();
        let k = k.unwrap_or_else(|| Quorums::default_k(members));
        let quorums = Quorums::fallback(members, k).expect("a number of members that is allowed");
        if without_store {
            quorums
        } else {
            quorums.requiring_store()
        }
    }

    /// Creates a candidate of the library.
    fn candidate(
        &self,
        algorithm: Algorithm,
        (node, incarnation): (NodeId, u64),
        durable: Option<&DurableState>,
        context: &mut Context<'_>,
    ) -> Candidate {
        let name = match algorithm {
            Algorithm::Fallback { .. } => node.into(),
            _ => name_of(node),
        };
        let servers = match algorithm {
            Algorithm::Cluster => SERVERS.to_vec(),
            _ => vec![STORE],
        };
        let store = || StoreClient::new(name, servers, incarnation);
        let lease = || LeaseCandidate::new(self.contestant.term);
        let (machine, store, detector) = match algorithm {
            Algorithm::Lease | Algorithm::Cluster => {
                (AnyMachine::Lease(Box::new(lease())), Some(store()), None)
            }
            Algorithm::Bully { detector, quorum } => {
                let member = self.member(node, MemberRule::of(quorum), durable, context);
                (AnyMachine::Peers(Box::new(member)), None, Some(detector))
            }
            Algorithm::Joint { detector, quorum } => {
                let member = self.member(node, MemberRule::of(quorum), durable, context);
                let joint = Joint::new(lease(), member);
                (
                    AnyMachine::Joint(Box::new(joint)),
                    Some(store()),
                    Some(detector),
                )
            }
            Algorithm::Fallback {
                detector,
                k,
                without_store,
            } => {
                let rule = MemberRule::Quorums(self.fallback(k, without_store));
                let member = self.member(node, rule, durable, context);
                let fallback = FallbackCandidate::new(member, context.now);
                (
                    AnyMachine::Fallback(Box::new(fallback)),
                    Some(store()),
                    Some(detector),
                )
            }
            Algorithm::Other(other) => {
                unreachable!("{other:?} is no algorithm of the library")
            }
        };
        let incarnation = machine.node().map(|it| Incarnation(it.incarnation()));
        let peers = incarnation.zip(detector).map(|(incarnation, kind)| {
            let group = Group::new(node, incarnation, self.members.iter());
            let detector = self.detector(kind, &group, context.now);
            PeerLink::new(
                incarnation,
                detector.expect("parameters that were checked"),
                self.watches,
                self.timings.message_lifetime(),
            )
        });
        Candidate::start(node, machine, store, peers, context)
    }

    fn member(
        &self,
        node: NodeId,
        rule: MemberRule,
        durable: Option<&DurableState>,
        context: &Context<'_>,
    ) -> PeerCandidate {
        let state = durable.and_then(|it| it.downcast_ref::<HardState>());
        let state = state.copied().unwrap_or_default();
        let started = Started {
            at: context.now,
            wall: context.wall,
        };
        PeerCandidate::new(self.settings(node, rule), state, started)
    }

    fn detector(
        &self,
        kind: DetectorKind,
        group: &Group,
        now: Instant,
    ) -> Result<SimDetector, OptionsError> {
        let by = match kind {
            DetectorKind::Of(by) => by,
            DetectorKind::Mixed => MIXED[(group.me.0 as usize - 1) % MIXED.len()],
            DetectorKind::Other(_) => DetectBy::default(),
        };
        let mut options = self.contestant.detection;
        options.by = by;
        let detection = Detection::new(&options, self.timings.message_lifetime())?;
        let DetectorKind::Other(other) = kind else {
            return Ok(SimDetector::Library(detection.detector(group)));
        };
        let ask = AskOptions {
            timeout: detection.ask_timeout(),
            confirm: detection.confirm_timeout(),
            ..AskOptions::default()
        };
        Ok(SimDetector::Other((other.start)(now, group, ask)))
    }
}

impl ProcessFactory for Cluster {
    fn machines(&self) -> Vec<NodeId> {
        let store = self.contestant.algorithm.uses_store().then_some(STORE);
        let servers = match self.contestant.algorithm {
            Algorithm::Cluster => &SERVERS[..],
            _ => &[],
        };
        let members = (1..=self.nodes).map(NodeId);
        let store = store.into_iter().chain(servers.iter().copied());
        store.chain(members).collect()
    }

    fn is_store(&self, node: NodeId) -> bool {
        node == STORE || SERVERS.contains(&node)
    }

    fn counts_suspensions(&self, node: NodeId) -> bool {
        node != STORE
    }

    fn start(
        &self,
        node: NodeId,
        incarnation: u64,
        durable: Option<&DurableState>,
        context: &mut Context<'_>,
    ) -> Box<dyn Process> {
        if self.contestant.algorithm == Algorithm::Cluster && self.is_store(node) {
            if node == STORE {
                return Box::new(Home::start(durable));
            }
            let term = self.contestant.term;
            let this = (node, incarnation);
            return Box::new(Server::start(this, STORE, term, context));
        }
        if node == STORE {
            let term = &self.contestant.term;
            return Box::new(Store::start(term, durable, context));
        }
        let algorithm = self.algorithms.get(&node);
        match algorithm.copied().unwrap_or(self.contestant.algorithm) {
            Algorithm::Other(other) => {
                let (poll, timeout) = self.contestant.poll_and_timeout();
                let member = OtherMember {
                    me: node,
                    incarnation,
                    members: (1..=self.nodes).map(NodeId).collect(),
                    poll,
                    timeout,
                    durable,
                };
                other.start(member, context)
            }
            algorithm => Box::new(self.candidate(algorithm, (node, incarnation), durable, context)),
        }
    }

    fn can_elect(&self, connected: &BTreeSet<NodeId>) -> bool {
        let members = connected.iter().filter(|&&node| node != STORE).count();
        let majority = Quorums::majority(self.members.len()).without_store();
        let (beside_store, without_store) = match self.contestant.algorithm {
            Algorithm::Lease => (Some(1), usize::MAX),
            Algorithm::Joint { .. } => (Some(majority), usize::MAX),
            Algorithm::Bully { .. } => (None, majority),
            Algorithm::Fallback {
                k, without_store, ..
            } => {
                let quorums = self.fallback(k, without_store);
                let members = quorums.without_store();
                let members = if without_store { members } else { usize::MAX };
                (quorums.with_store(), members)
            }
            _ => return false,
        };
        let beside_store = beside_store.filter(|_| connected.contains(&STORE));
        beside_store.is_some_and(|needed| members >= needed) || members >= without_store
    }

    fn set_algorithm(&mut self, node: NodeId, algorithm: &str) {
        let known = Contestant::of_name(algorithm).expect("an algorithm that exists");
        self.algorithms.insert(node, known.algorithm);
    }

    fn stop_allowances(&self) -> (Duration, Duration) {
        let term = &self.contestant.term;
        (term.stop_grace(), term.abort_allowance())
    }
}

//! The machines that take part in an election among peers.

use tenure_core::bully::{PeerCandidate, PeerEffect, PeerInput};
use tenure_core::election::ElectionMachine;
use tenure_core::election::fallback::FallbackCandidate;
use tenure_core::election::joint::{Joint, JointEffect, JointMessage};
use tenure_core::lease::LeaseId;
use tenure_core::lease::candidate::Answer;
use tenure_core::{CandidateId, Instant, NodeId};

use super::StoreState;
use crate::base::random::OsRandom;

/// A machine for an election among peers, either alone or together with a lease.
pub(crate) trait PeerMachine: ElectionMachine + Send {
    /// Returns the member, or the half of the machine that is a member.
    fn node(&self) -> &PeerCandidate;

    /// Handles input from the other members, the failure detector or the disk.
    fn handle_peer_input(&mut self, now: Instant, input: PeerInput);

    /// Returns the effect with the half of the machine that executes it.
    fn half(effect: Self::Effect) -> JointEffect;

    /// Returns the name that the machine uses for this candidate.
    fn peer(node: NodeId, candidate: CandidateId) -> Self::Peer;

    /// Handles an answer of the lease service, if the machine needs a lease.
    fn handle_answer(&mut self, _now: Instant, _attempt: u64, _answer: Answer) {}

    /// Sends the next renewal of the lease now, if it is due soon.
    fn renew_early(&mut self, _now: Instant) {}

    /// Returns the lease id of the current term.
    fn lease_id(&self) -> Option<LeaseId> {
        None
    }

    /// Returns the state of the store as a voter while this member leads, with a fallback.
    fn store_state(&self, _now: Instant) -> Option<StoreState> {
        None
    }
}

impl PeerMachine for PeerCandidate {
    fn node(&self) -> &PeerCandidate {
        self
    }

    fn handle_peer_input(&mut self, now: Instant, input: PeerInput) {
        self.handle_message(now, input, &mut OsRandom);
    }

    fn half(effect: PeerEffect) -> JointEffect {
        JointEffect::Peers(effect)
    }

    fn peer(node: NodeId, _: CandidateId) -> NodeId {
        node
    }
}

impl PeerMachine for Joint {
    fn node(&self) -> &PeerCandidate {
        self.node()
    }

    fn handle_peer_input(&mut self, now: Instant, input: PeerInput) {
        self.handle_message(now, JointMessage::Peers(input), &mut OsRandom);
    }

    fn half(effect: JointEffect) -> JointEffect {
        effect
    }

    fn peer(node: NodeId, candidate: CandidateId) -> (NodeId, CandidateId) {
        (node, candidate)
    }

    fn handle_answer(&mut self, now: Instant, attempt: u64, answer: Answer) {
        self.handle_message(now, JointMessage::Store(attempt, answer), &mut OsRandom);
    }

    fn renew_early(&mut self, now: Instant) {
        self.renew_early(now, &mut OsRandom);
    }

    fn lease_id(&self) -> Option<LeaseId> {
        self.lease_id()
    }
}

impl PeerMachine for FallbackCandidate {
    fn node(&self) -> &PeerCandidate {
        self.node()
    }

    fn handle_peer_input(&mut self, now: Instant, input: PeerInput) {
        self.handle_message(now, JointMessage::Peers(input), &mut OsRandom);
    }

    fn half(effect: JointEffect) -> JointEffect {
        effect
    }

    fn peer(node: NodeId, candidate: CandidateId) -> (NodeId, CandidateId) {
        (node, candidate)
    }

    fn handle_answer(&mut self, now: Instant, attempt: u64, answer: Answer) {
        self.handle_message(now, JointMessage::Store(attempt, answer), &mut OsRandom);
    }

    fn renew_early(&mut self, now: Instant) {
        self.renew_early(now, &mut OsRandom);
    }

    fn lease_id(&self) -> Option<LeaseId> {
        self.lease_id()
    }

    fn store_state(&self, now: Instant) -> Option<StoreState> {
        let kind = self.node().carried_by(now)?;
        Some(StoreState {
            kind,
            silent_since: self.store().silent_since(now),
            hold: self.store().hold_state(),
        })
    }
}

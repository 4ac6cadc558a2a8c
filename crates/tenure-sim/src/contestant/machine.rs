//! The machines of the library behind the interface of [`Joint`].

use tenure_core::bully::{PeerCandidate, PeerInput};
use tenure_core::election::fallback::FallbackCandidate;
use tenure_core::election::joint::{Joint, JointEffect, JointMessage};
use tenure_core::election::{ElectionMachine, EndReason, Output, Standing, TaskEnd};
use tenure_core::lease::candidate::{Answer, LeaseCandidate};
use tenure_core::{Instant, Random};

#[derive(Debug)]
pub(super) enum Machine {
    Lease(Box<LeaseCandidate>),
    Peers(Box<PeerCandidate>),
    Joint(Box<Joint>),
    Fallback(Box<FallbackCandidate>),
}

macro_rules! each {
    ($self:expr, $machine:ident => $call:expr) => {
        match $self {
            Machine::Lease($machine) => $call,
            Machine::Peers($machine) => $call,
            Machine::Joint($machine) => $call,
            Machine::Fallback($machine) => $call,
        }
    };
}

impl Machine {
    /// Returns the half among peers, if there is one.
    pub(super) const fn peers(&self) -> Option<&PeerCandidate> {
        match self {
            Self::Lease(_) => None,
            Self::Peers(node) => Some(node),
            Self::Joint(joint) => Some(joint.node()),
            Self::Fallback(fallback) => Some(fallback.node()),
        }
    }

    pub(super) fn campaign(&mut self, now: Instant, random: &mut dyn Random) {
        each!(self, it => ElectionMachine::campaign(&mut **it, now, random));
    }

    pub(super) fn resign(&mut self, now: Instant, reason: EndReason, random: &mut dyn Random) {
        each!(self, it => ElectionMachine::resign(&mut **it, now, reason, random));
    }

    pub(super) fn task_ended(&mut self, now: Instant, end: TaskEnd, random: &mut dyn Random) {
        each!(self, it => ElectionMachine::task_ended(&mut **it, now, end, random));
    }

    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        attempt: u64,
        answer: Answer,
        random: &mut dyn Random,
    ) {
        match self {
            Self::Lease(lease) => lease.handle_message(now, (attempt, answer), random),
            Self::Peers(_) => {}
            Self::Joint(joint) => {
                joint.handle_message(now, JointMessage::Store(attempt, answer), random);
            }
            Self::Fallback(fallback) => {
                fallback.handle_message(now, JointMessage::Store(attempt, answer), random);
            }
        }
    }

    pub(super) fn handle_peers(&mut self, now: Instant, input: PeerInput, random: &mut dyn Random) {
        match self {
            Self::Lease(_) => {}
            Self::Peers(node) => node.handle_message(now, input, random),
            Self::Joint(joint) => joint.handle_message(now, JointMessage::Peers(input), random),
            Self::Fallback(fallback) => {
                fallback.handle_message(now, JointMessage::Peers(input), random);
            }
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, random: &mut dyn Random) {
        each!(self, it => ElectionMachine::handle_timeout(&mut **it, now, random));
    }

    pub(super) fn poll_output(&mut self) -> Option<Output<JointEffect>> {
        Some(match self {
            Self::Lease(lease) => effect(lease.poll_output()?, JointEffect::Store),
            Self::Peers(node) => effect(node.poll_output()?, JointEffect::Peers),
            Self::Joint(joint) => joint.poll_output()?,
            Self::Fallback(fallback) => fallback.poll_output()?,
        })
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        each!(self, it => ElectionMachine::poll_timeout(&**it))
    }

    pub(super) fn standing(&self, now: Instant) -> Standing {
        each!(self, it => ElectionMachine::standing(&**it, now))
    }
}

fn effect<E>(output: Output<E>, wrap: fn(E) -> JointEffect) -> Output<JointEffect> {
    match output {
        Output::Effect(effect) => Output::Effect(wrap(effect)),
        Output::Term(event) => Output::Term(event),
    }
}

//! All machines behind one type.

use alloc::boxed::Box;

use super::fallback::FallbackCandidate;
use super::joint::{Joint, JointEffect, JointMessage};
use super::{ElectionMachine, EndReason, Output, Standing, TaskEnd};
use crate::bully::{PeerCandidate, PeerInput};
use crate::lease::LeaseId;
use crate::lease::candidate::LeaseCandidate;
use crate::{CandidateId, Instant, Random};

/// The machine of any strategy. It ignores a message for a half that its strategy does not have.
#[derive(Debug)]
pub enum AnyMachine {
    /// A candidate that competes for a lease.
    Lease(Box<LeaseCandidate>),
    /// A member that is elected among its peers.
    Peers(Box<PeerCandidate>),
    /// A candidate that needs a lease and its peers.
    Joint(Box<Joint>),
    /// A candidate that needs a lease, or its peers while the store is away.
    Fallback(Box<FallbackCandidate>),
}

macro_rules! each {
    ($self:expr, $machine:ident => $call:expr) => {
        match $self {
            Self::Lease($machine) => $call,
            Self::Peers($machine) => $call,
            Self::Joint($machine) => $call,
            Self::Fallback($machine) => $call,
        }
    };
}

impl AnyMachine {
    /// Returns the half among peers, if there is one.
    #[must_use]
    pub const fn node(&self) -> Option<&PeerCandidate> {
        match self {
            Self::Lease(_) => None,
            Self::Peers(node) => Some(node),
            Self::Joint(joint) => Some(joint.node()),
            Self::Fallback(fallback) => Some(fallback.node()),
        }
    }

    /// Returns the lease id of the current term, which is the holder's secret.
    #[must_use]
    pub fn lease_id(&self) -> Option<LeaseId> {
        match self {
            Self::Lease(lease) => lease.lease_id(),
            Self::Peers(_) => None,
            Self::Joint(joint) => joint.lease_id(),
            Self::Fallback(fallback) => fallback.lease_id(),
        }
    }

    /// Input: an input from the peers, their failure detector or the disk.
    pub fn handle_peers(&mut self, now: Instant, input: PeerInput, random: &mut dyn Random) {
        self.handle_message(now, JointMessage::Peers(input), random);
    }

    /// Command: send the next renewal to the store now if it is due soon.
    pub fn renew_early(&mut self, now: Instant, random: &mut dyn Random) {
        match self {
            Self::Lease(lease) => lease.renew_early(now, random),
            Self::Peers(_) => {}
            Self::Joint(joint) => joint.renew_early(now, random),
            Self::Fallback(fallback) => fallback.renew_early(now, random),
        }
    }
}

impl ElectionMachine for AnyMachine {
    type Message = JointMessage;
    type Effect = JointEffect;

    fn campaign(&mut self, now: Instant, random: &mut dyn Random) {
        each!(self, it => it.campaign(now, random));
    }

    fn resign(&mut self, now: Instant, reason: EndReason, random: &mut dyn Random) {
        each!(self, it => it.resign(now, reason, random));
    }

    fn hand_over(&mut self, now: Instant, to: CandidateId) {
        each!(self, it => it.hand_over(now, to));
    }

    fn task_ended(&mut self, now: Instant, end: TaskEnd, random: &mut dyn Random) {
        each!(self, it => it.task_ended(now, end, random));
    }

    fn handle_message(&mut self, now: Instant, message: JointMessage, random: &mut dyn Random) {
        match (self, message) {
            (Self::Lease(lease), JointMessage::Store(attempt, answer)) => {
                lease.handle_message(now, (attempt, answer), random);
            }
            (Self::Peers(node), JointMessage::Peers(input)) => {
                node.handle_message(now, input, random);
            }
            (Self::Joint(joint), message) => joint.handle_message(now, message, random),
            (Self::Fallback(fallback), message) => fallback.handle_message(now, message, random),
            (Self::Lease(_), JointMessage::Peers(_))
            | (Self::Peers(_), JointMessage::Store(..)) => {}
        }
    }

    fn handle_progress(&mut self, at: Instant) {
        each!(self, it => it.handle_progress(at));
    }

    fn handle_timeout(&mut self, now: Instant, random: &mut dyn Random) {
        each!(self, it => it.handle_timeout(now, random));
    }

    fn poll_output(&mut self) -> Option<Output<JointEffect>> {
        match self {
            Self::Lease(lease) => lease.poll_output().map(|it| it.map(JointEffect::Store)),
            Self::Peers(node) => node.poll_output().map(|it| it.map(JointEffect::Peers)),
            Self::Joint(joint) => joint.poll_output(),
            Self::Fallback(fallback) => fallback.poll_output(),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        each!(self, it => it.poll_timeout())
    }

    fn standing(&self, now: Instant) -> Standing {
        each!(self, it => it.standing(now))
    }

    fn stop_by(&self) -> Option<Instant> {
        each!(self, it => it.stop_by())
    }

    fn overrun_at(&self) -> Option<Instant> {
        each!(self, it => it.overrun_at())
    }
}

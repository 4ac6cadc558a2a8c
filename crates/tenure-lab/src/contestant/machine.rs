//! The library's machines behind one interface.

use std::time::Duration;

use tenure_core::bully::{PeerCandidate, PeerInput, PeerOutput};
use tenure_core::election::joint::{Joint, JointMessage, JointOutput};
use tenure_core::election::{ElectionMachine, Standing};
use tenure_core::lease::candidate::{
    Answer, EndReason, LeaseCandidate, LeaseOutput, Request, TaskEnd,
};
use tenure_core::{CandidateId, Epoch, Instant, NodeId, Random};

#[derive(Debug)]
pub(super) enum Machine {
    Lease(Box<LeaseCandidate>),
    Peers(Box<PeerCandidate>),
    Joint(Box<Joint>),
}

/// An output of any of them.
#[derive(Debug)]
pub(super) enum Output {
    /// Send this request to the store.
    Ask {
        attempt: u64,
        request: Request,
        timeout: Duration,
    },
    /// Send a message, write to disk, or ask the failure detector.
    Peers(PeerOutput),
    Began(Epoch),
    Cancel(EndReason),
    Abort,
    Ended(EndReason),
    Failed(String),
    /// The store has named the holder of the lease.
    SeenHolder(Option<CandidateId>),
    /// A member leads among the peers.
    SeenLeader(Option<NodeId>),
    /// Something that the simulation does not need.
    Other,
}

macro_rules! each {
    ($self:expr, $machine:ident => $call:expr) => {
        match $self {
            Machine::Lease($machine) => $call,
            Machine::Peers($machine) => $call,
            Machine::Joint($machine) => $call,
        }
    };
}

impl Machine {
    /// The half among peers, if there is one.
    pub(super) const fn peers(&self) -> Option<&PeerCandidate> {
        match self {
            Self::Lease(_) => None,
            Self::Peers(node) => Some(node),
            Self::Joint(joint) => Some(joint.node()),
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
            Self::Lease(lease) => lease.handle_message(now, attempt, answer, random),
            Self::Peers(_) => {}
            Self::Joint(joint) => {
                joint.handle_message(now, JointMessage::Store(attempt, answer), random);
            }
        }
    }

    pub(super) fn handle_peers(&mut self, now: Instant, input: PeerInput, random: &mut dyn Random) {
        match self {
            Self::Lease(_) => {}
            Self::Peers(node) => node.handle_message(now, input, random),
            Self::Joint(joint) => joint.handle_message(now, JointMessage::Peers(input), random),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, random: &mut dyn Random) {
        each!(self, it => ElectionMachine::handle_timeout(&mut **it, now, random));
    }

    pub(super) fn poll_output(&mut self) -> Option<Output> {
        Some(match self {
            Self::Lease(lease) => of_lease(lease.poll_output()?),
            Self::Peers(node) => of_peers(node.poll_output()?),
            Self::Joint(joint) => match joint.poll_output()? {
                JointOutput::Store(output) => of_lease(output),
                JointOutput::Peers(output) => of_peers(output),
            },
        })
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        each!(self, it => ElectionMachine::poll_timeout(&**it))
    }

    pub(super) fn standing(&self, now: Instant) -> Standing {
        each!(self, it => ElectionMachine::standing(&**it, now))
    }
}

fn of_lease(output: LeaseOutput) -> Output {
    match output {
        LeaseOutput::Send {
            attempt,
            request,
            timeout,
        } => Output::Ask {
            attempt,
            request,
            timeout,
        },
        LeaseOutput::Began(epoch) => Output::Began(epoch),
        LeaseOutput::Cancel(reason) => Output::Cancel(reason),
        LeaseOutput::Abort => Output::Abort,
        LeaseOutput::Ended(_, reason) => Output::Ended(reason),
        LeaseOutput::Failed(why) => Output::Failed(why),
        LeaseOutput::SeenLeader(holder) => Output::SeenHolder(holder.map(|(holder, _)| holder)),
        LeaseOutput::AtRisk(_)
        | LeaseOutput::Overrun
        | LeaseOutput::Withdrawn
        | LeaseOutput::Retrying(_) => Output::Other,
    }
}

fn of_peers(output: PeerOutput) -> Output {
    match output {
        PeerOutput::Began(epoch) => Output::Began(epoch),
        PeerOutput::Cancel(reason) => Output::Cancel(reason),
        PeerOutput::Abort => Output::Abort,
        PeerOutput::Ended(_, reason) => Output::Ended(reason),
        PeerOutput::Failed(why) => Output::Failed(why),
        PeerOutput::SeenLeader(leader) => Output::SeenLeader(leader.map(|(leader, _)| leader)),
        PeerOutput::AtRisk(_) | PeerOutput::Overrun | PeerOutput::Withdrawn => Output::Other,
        PeerOutput::Send { .. }
        | PeerOutput::Persist(_)
        | PeerOutput::Ask { .. }
        | PeerOutput::Watch(_)
        | PeerOutput::Unwatch(_) => Output::Peers(output),
    }
}

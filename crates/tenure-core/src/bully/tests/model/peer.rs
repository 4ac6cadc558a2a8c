//! A member without a quorum, driven by the model.

use alloc::vec::Vec;

use super::*;
use crate::bully::best_effort::{BestEffort, Status};
use crate::bully::node::Machine;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peer(pub(super) PeerCandidate);

/// Returns a constant time: all timers are always due, so time need not advance.
pub(super) fn now() -> Instant {
    Instant::default() + Duration::from_secs(1)
}

fn nothing() -> Epoch {
    Epoch::new(0).unwrap()
}

/// Replaces the epoch of a message: epochs increase without limit, and this model does not depend
/// on them.
pub(super) fn without_epoch(message: PeerMessage) -> PeerMessage {
    let epoch = nothing();
    match message {
        PeerMessage::Ack { election, .. } => PeerMessage::Ack {
            election,
            highest: None,
        },
        PeerMessage::Ldr { election, .. } => PeerMessage::Ldr { election, epoch },
        PeerMessage::Norm { election, .. } => PeerMessage::Norm { election, epoch },
        other => other,
    }
}

impl PeerCandidate {
    pub(super) fn best_effort(&mut self) -> &mut BestEffort {
        match &mut self.machine {
            Machine::BestEffort(machine) => machine,
            Machine::Quorum(_) => unreachable!("these members have no quorum"),
        }
    }

    /// Executes the member's outputs: a write and a task end at once, and the member campaigns
    /// again at once. Returns whether the member asks the detector a new question.
    pub(super) fn execute(
        &mut self,
        durable: &mut HardState,
        said: &mut Vec<(NodeId, PeerMessage)>,
    ) -> bool {
        while let Some(output) = self.poll_output() {
            match output {
                Output::Effect(PeerEffect::Send { to, message }) => said.push((to, message)),
                Output::Effect(PeerEffect::Persist(record)) => {
                    *durable = record;
                    durable.highest = None;
                    self.handle_message(now(), PeerInput::Persisted, &mut Constant);
                }
                Output::Term(TermEvent::Cancel(_)) => {
                    self.end_term(now(), TaskEnd::Aborted, &mut Constant)
                }
                Output::Term(TermEvent::Ended(..)) => self.campaign(now(), &mut Constant),
                _ => {}
            }
        }
        self.state.seen = None;
        self.watched = None;
        self.state.record.highest = None;
        if let Some(term) = &mut self.state.term {
            term.epoch = nothing();
        }
        let machine = self.best_effort();
        match &mut machine.status {
            Status::Halting { highest, .. } => *highest = None,
            Status::Following { epoch } | Status::Leading { epoch } => *epoch = nothing(),
            _ => {}
        }
        machine.tick_at = now();
        core::mem::take(&mut machine.round) > 0
    }
}

impl Peer {
    pub(super) fn hear(&mut self, from: NodeId, message: PeerMessage) {
        let incarnation = Incarnation(1);
        let input = PeerInput::Message {
            from,
            incarnation,
            message,
        };
        self.0.handle_message(now(), input, &mut Constant);
    }

    pub(super) fn answer(&mut self, node: NodeId, verdict: Verdict) {
        let round = self.0.best_effort().round;
        let input = PeerInput::Answer {
            node,
            round,
            verdict,
        };
        self.0.handle_message(now(), input, &mut Constant);
    }

    pub(super) fn tick(&mut self) {
        self.0.handle_timeout(now(), &mut Constant);
    }

    fn machine(&self) -> &BestEffort {
        match &self.0.machine {
            Machine::BestEffort(machine) => machine,
            Machine::Quorum(_) => unreachable!("these members have no quorum"),
        }
    }

    pub(super) fn asked(&self) -> Vec<NodeId> {
        self.machine().asked.iter().copied().collect()
    }

    pub(super) fn leader(&self) -> Option<NodeId> {
        let machine = self.machine();
        let settled = matches!(
            machine.status,
            Status::Following { .. } | Status::Leading { .. }
        );
        settled.then_some(machine.election.organiser)
    }

    pub(super) fn in_words(&self) -> String {
        let machine = self.machine();
        let status = match machine.status {
            Status::Asking { .. } => "asking",
            Status::Halting { .. } => "halting",
            Status::PersistingEpoch { .. } => "crowning",
            Status::Waiting => "waiting",
            Status::Following { .. } => "following",
            Status::Leading { .. } => "leading",
        };
        let leader = self.leader().map(|leader| alloc::format!(" {leader}"));
        let ElectionId {
            organiser,
            incarnation,
            number,
        } = machine.election;
        alloc::format!(
            "{status}{} <{organiser},{incarnation},{number}>",
            leader.unwrap_or_default()
        )
    }
}

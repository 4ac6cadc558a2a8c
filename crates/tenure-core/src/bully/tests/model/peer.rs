//! One member without a quorum, published or repaired, as the model drives it.

use alloc::vec::Vec;

use super::*;
use crate::bully::best_effort::{BestEffort, Status};
use crate::bully::node::Machine;
use crate::bully::published::{self, Event, Published};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "nearly all are the large one")]
pub(super) enum Peer {
    Published(Published),
    Repaired(PeerCandidate),
}

/// All timers are always due, so time need not move.
pub(super) fn now() -> Instant {
    Instant::default() + Duration::from_secs(1)
}

fn nothing() -> Epoch {
    Epoch::new(0).unwrap()
}

/// Epochs count up for ever, and nothing is decided by them here.
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

    /// Executes its outputs: the disk writes at once, a task ends at once, and it campaigns for
    /// ever. True if it asks the detector anew.
    pub(super) fn obey(
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
                Output::Term(TermEvent::Cancel(_)) => self.end_term(now(), TaskEnd::Aborted),
                Output::Term(TermEvent::Ended(..)) => self.campaign(now(), &mut Constant),
                _ => {}
            }
        }
        self.state.seen = None;
        self.watched = None;
        self.state.record.highest = None;
        if let Some(term) = &mut self.state.term {
            term.forget_epoch(nothing());
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
    pub(super) fn hear(
        &mut self,
        from: NodeId,
        message: PeerMessage,
    ) -> Vec<(NodeId, PeerMessage)> {
        match self {
            Self::Published(node) => node.handle(Event::Message(from, message)),
            Self::Repaired(node) => {
                let input = PeerInput::Message { from, message };
                node.handle_message(now(), input, &mut Constant);
                Vec::new()
            }
        }
    }

    pub(super) fn answer(&mut self, node: NodeId, verdict: Verdict) -> Vec<(NodeId, PeerMessage)> {
        match self {
            Self::Published(this) => this.handle(Event::Answer(node, verdict)),
            Self::Repaired(this) => {
                let round = this.best_effort().round;
                let input = PeerInput::Answer {
                    node,
                    round,
                    verdict,
                };
                this.handle_message(now(), input, &mut Constant);
                Vec::new()
            }
        }
    }

    pub(super) fn tick(&mut self) -> Vec<(NodeId, PeerMessage)> {
        match self {
            Self::Published(node) => node.handle(Event::Poll),
            Self::Repaired(node) => {
                node.handle_timeout(now(), &mut Constant);
                Vec::new()
            }
        }
    }

    pub(super) fn asked(&self) -> Vec<NodeId> {
        match self {
            Self::Published(node) => node.asked().collect(),
            Self::Repaired(node) => match &node.machine {
                Machine::BestEffort(machine) => machine.asked.iter().copied().collect(),
                Machine::Quorum(_) => Vec::new(),
            },
        }
    }

    pub(super) fn leader(&self) -> Option<NodeId> {
        match self {
            Self::Published(node) => node.leader(),
            Self::Repaired(node) => match &node.machine {
                Machine::BestEffort(machine) => {
                    let settled = matches!(
                        machine.status,
                        Status::Following { .. } | Status::Leading { .. }
                    );
                    settled.then_some(machine.election.organiser)
                }
                Machine::Quorum(_) => None,
            },
        }
    }

    pub(super) fn in_words(&self) -> String {
        let (status, election) = match self {
            Self::Published(node) => {
                let status = match node.status() {
                    published::Status::Norm => "Norm",
                    published::Status::Elec1 => "Elec1",
                    published::Status::Elec2 => "Elec2",
                    published::Status::Wait => "Wait",
                };
                (status, node.election())
            }
            Self::Repaired(node) => match &node.machine {
                Machine::BestEffort(machine) => {
                    let status = match machine.status {
                        Status::Asking { .. } => "asking",
                        Status::Halting { .. } => "halting",
                        Status::PersistingEpoch { .. } => "crowning",
                        Status::Waiting => "waiting",
                        Status::Following { .. } => "following",
                        Status::Leading { .. } => "leading",
                    };
                    (status, machine.election)
                }
                Machine::Quorum(_) => unreachable!("these members have no quorum"),
            },
        };
        let leader = self.leader().map(|leader| alloc::format!(" {leader}"));
        let id = (election.organiser, election.incarnation, election.number);
        let (organiser, incarnation, number) = id;
        alloc::format!(
            "{status}{} <{organiser},{incarnation},{number}>",
            leader.unwrap_or_default()
        )
    }
}

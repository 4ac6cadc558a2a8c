//! Electing among peers.

mod metadata;
mod persistence;
mod replies;
mod status;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tenure_core::bully::{PeerCandidate, PeerEffect, PeerInput, PeerMessage, QuorumMessage};
use tenure_core::detector::{Candidacy, Detector, DetectorInput, DetectorOutput};
use tenure_core::election::joint::{Joint, JointMessage};
use tenure_core::election::{
    CampaignFailure, ElectionMachine, EndReason, Output, Standing, TermEvent,
};
use tenure_core::{CandidateId, Epoch, Incarnation, Instant, NodeId};
use tokio::sync::{oneshot, watch};
use tracing::error;

use super::command::Proclaimed;
use super::strategy_io::{NO_SUCH_MEMBER, StrategyIo};
use crate::config::Config;
use crate::leadership::ProclaimError;
use crate::observe::Observed;
use crate::peer_transport::{
    IncomingMessage, LeaderMetadata, Payload, PeerEvent, PeerTransport, Status,
};
use crate::random::OsRandom;

use metadata::Metadata;
pub(crate) use persistence::Disk;
use persistence::Persistence;
use replies::Replies;
use status::StatusReport;

/// How often to look whether the last messages of a term have left.
const FLUSH_INTERVAL: Duration = Duration::from_millis(10);

/// A machine that takes part in an election among peers.
pub(crate) trait PeerMachine: ElectionMachine<Effect: Send> + Send {
    /// The member, or the half that is one.
    fn node(&self) -> &PeerCandidate;

    /// Input from the other members, the failure detector or the disk.
    fn handle_peer_input(&mut self, now: Instant, input: PeerInput);
}

impl PeerMachine for PeerCandidate {
    fn node(&self) -> &PeerCandidate {
        self
    }

    fn handle_peer_input(&mut self, now: Instant, input: PeerInput) {
        self.handle_message(now, input, &mut OsRandom);
    }
}

impl PeerMachine for Joint {
    fn node(&self) -> &PeerCandidate {
        self.node()
    }

    fn handle_peer_input(&mut self, now: Instant, input: PeerInput) {
        self.handle_message(now, JointMessage::Peers(input), &mut OsRandom);
    }
}

/// A member's machine and failure detector, with their ways to the other members and to the disk.
pub(crate) struct Peers<M = PeerCandidate> {
    me: NodeId,
    machine: M,
    detector: Box<dyn Detector + Send>,
    candidacy: Candidacy,
    transport: PeerTransport,
    persistence: Persistence,
    replies: Replies,
    metadata: Metadata,
    status: StatusReport,
    /// The leader that observers were last shown.
    shown: Option<(NodeId, Epoch)>,
    /// A term that is over, until its last messages have left.
    ended: Option<Ended>,
    /// Why this member may not take part any more.
    banned: Option<String>,
}

/// The parts of a member.
pub(crate) struct Parts<M = PeerCandidate> {
    pub(crate) machine: M,
    pub(crate) detector: Box<dyn Detector + Send>,
    pub(crate) transport: PeerTransport,
    /// `None` for a member that has nothing to remember.
    pub(crate) disk: Option<Disk>,
}

/// Input from outside of the process.
#[derive(Debug)]
pub(crate) enum PeersInput {
    /// From the other members.
    Event(PeerEvent),
    /// A write has ended.
    Written(io::Result<()>),
}

/// A term that is over, while its last messages are under way.
#[derive(Clone, Copy)]
struct Ended {
    epoch: Epoch,
    reason: EndReason,
    /// When to look whether they have left.
    check_at: Instant,
    /// When they have left or are lost for sure.
    until: Instant,
}

impl<M: PeerMachine> Peers<M> {
    /// The member, and the leader that it sees.
    pub(crate) fn new(config: &Config, parts: Parts<M>) -> (Self, watch::Receiver<Observed>) {
        let Parts {
            machine,
            detector,
            transport,
            disk,
        } = parts;
        let node = machine.node();
        let me = node.settings().me();
        let status = Status {
            strategy: config.strategy.name().into(),
            ..Status::of(me, Incarnation(node.incarnation()))
        };
        let (metadata, observed) =
            Metadata::new(me, config.candidate.clone(), config.metadata.clone());
        let peers = Self {
            me,
            machine,
            detector,
            candidacy: Candidacy::default(),
            transport,
            persistence: Persistence::new(disk),
            replies: Replies::default(),
            metadata,
            status: StatusReport::new(status),
            shown: None,
            ended: None,
            banned: None,
        };
        (peers, observed)
    }

    pub(super) const fn machine(&self) -> &M {
        &self.machine
    }

    pub(super) const fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }

    /// Waits for the next input. May be dropped while it waits; nothing is lost then.
    pub(super) async fn next_input(&mut self) -> PeersInput {
        tokio::select! {
            event = self.transport.recv() => PeersInput::Event(event),
            written = self.persistence.next_written() => PeersInput::Written(written),
        }
    }

    pub(super) fn handle_input(&mut self, now: Instant, input: PeersInput) {
        match input {
            PeersInput::Event(PeerEvent::Message(incoming)) => self.handle_message(now, incoming),
            PeersInput::Event(PeerEvent::Refused(node)) => {
                self.detector
                    .handle_input(now, DetectorInput::Refused(node));
            }
            PeersInput::Event(PeerEvent::Duplicate(duplicate)) => {
                self.ban(now, duplicate.to_string());
            }
            PeersInput::Written(written) => {
                for _ in 0..self.persistence.handle_written(self.me, written) {
                    self.machine.handle_peer_input(now, PeerInput::Persisted);
                }
            }
        }
    }

    fn handle_message(&mut self, now: Instant, incoming: IncomingMessage) {
        let (from, incarnation) = (incoming.from, incoming.incarnation);
        if let Some(reply) = incoming.reply {
            let of_election = matches!(incoming.payload, Payload::Election(_));
            // Half of the time that is left, so that the response arrives while its sender waits.
            let wait_until = now + incoming.good_until.since(now) / 2;
            self.replies
                .open(from, reply, of_election.then_some(wait_until));
        }
        self.status.heard(now, from);
        let heard = match incoming.payload {
            Payload::Detector(message) => DetectorInput::Message {
                from,
                incarnation,
                message,
            },
            Payload::Metadata(metadata) => {
                self.metadata.receive(from, metadata);
                self.metadata.show(self.machine.node().leader());
                DetectorInput::Heard { from, incarnation }
            }
            Payload::Election(message) => {
                let input = PeerInput::Message { from, message };
                self.machine.handle_peer_input(now, input);
                DetectorInput::Heard { from, incarnation }
            }
        };
        self.detector.handle_input(now, heard);
    }

    /// Another process takes part under this member's number. Two processes that vote under one
    /// number break every majority, so this one sends nothing from here on.
    fn ban(&mut self, now: Instant, why: String) {
        error!(node = %self.me, error = why, "this member takes no part any more");
        self.transport = PeerTransport::Silent;
        self.replies.clear();
        self.banned = Some(why);
        self.machine
            .resign(now, EndReason::Superseded, &mut OsRandom);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.detector.handle_timeout(now);
        self.machine.handle_timeout(now, &mut OsRandom);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        [
            self.machine.poll_timeout(),
            self.detector.poll_timeout(),
            self.replies.poll_timeout(),
            self.ended.map(|ended| ended.check_at),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Executes the effects of the machine, by way of `execute`, and of the detector, up to the next
    /// term event. At the end of the turn the replies leave.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        mut execute: impl FnMut(&mut Self, M::Effect),
    ) -> Option<TermEvent> {
        loop {
            if let Some(why) = &self.banned
                && self.machine.standing(now) == Standing::Campaigning
            {
                let failure = CampaignFailure::Barred(why.clone());
                self.machine
                    .resign(now, EndReason::Superseded, &mut OsRandom);
                return Some(TermEvent::Failed(failure));
            }
            while let Some(output) = self.machine.poll_output() {
                match output {
                    Output::Effect(effect) => execute(self, effect),
                    // The other members are told first, so that the next one leads at once: this
                    // process may end when its task's end is known.
                    Output::Term(TermEvent::Ended(epoch, reason)) => {
                        self.metadata.end_term();
                        self.ended = Some(Ended {
                            epoch,
                            reason,
                            check_at: now,
                            until: now + self.message_lifetime(),
                        });
                    }
                    Output::Term(event) => return Some(event),
                }
            }
            if !self.execute_detector(now) {
                break;
            }
        }
        let node = self.machine.node();
        self.replies
            .flush(now, &self.transport, |to| node.holds_message_to(to));
        if self.shown != node.leader() {
            self.shown = node.leader();
            self.metadata.show(self.shown);
        }
        self.status.publish(
            now,
            self.machine.standing(now),
            node,
            &*self.detector,
            &self.transport,
            self.metadata.of_leader(),
        );
        self.poll_ended(now)
    }

    fn message_lifetime(&self) -> Duration {
        self.machine.node().settings().timings().message_lifetime()
    }

    /// The end of a term whose last messages have left.
    fn poll_ended(&mut self, now: Instant) -> Option<TermEvent> {
        let ended = self.ended.as_mut()?;
        if now < ended.until && !self.transport.is_idle() {
            ended.check_at = (now + FLUSH_INTERVAL).min(ended.until);
            return None;
        }
        let Ended { epoch, reason, .. } = *ended;
        self.ended = None;
        Some(TermEvent::Ended(epoch, reason))
    }

    pub(super) fn execute(&mut self, now: Instant, effect: PeerEffect) {
        match effect {
            PeerEffect::Send { to, message } => {
                self.send(to, Payload::Election(message));
                // Metadata go with the renewals, so that they need no delivery of their own.
                if let Some(epoch) = renewed(&message) {
                    self.send_metadata(to, epoch);
                }
            }
            PeerEffect::Persist(record) => {
                if self.persistence.persist(record) {
                    self.machine.handle_peer_input(now, PeerInput::Persisted);
                }
            }
            PeerEffect::Ask { node, round } => {
                let ask = DetectorInput::Ask { node, ask: round };
                self.detector.handle_input(now, ask);
            }
            PeerEffect::Watch(node) => {
                self.detector.handle_input(now, DetectorInput::Watch(node));
            }
            PeerEffect::Unwatch(node) => {
                self.detector
                    .handle_input(now, DetectorInput::Unwatch(node));
            }
        }
    }

    /// Executes an output of the detector; whether there was one.
    fn execute_detector(&mut self, now: Instant) -> bool {
        let candidacy = if self.machine.node().is_candidate(now) {
            Candidacy::Candidate
        } else {
            Candidacy::NonCandidate
        };
        if self.candidacy != candidacy {
            self.candidacy = candidacy;
            let input = DetectorInput::Candidacy(candidacy);
            self.detector.handle_input(now, input);
        }
        let Some(output) = self.detector.poll_output() else {
            return false;
        };
        let mut handle = |input| self.machine.handle_peer_input(now, input);
        match output {
            DetectorOutput::Send { to, message } => self.send(to, Payload::Detector(message)),
            DetectorOutput::Answer {
                ask: round,
                node,
                verdict,
                ..
            } => handle(PeerInput::Answer {
                node,
                round,
                verdict,
            }),
            DetectorOutput::Suspected(node) => handle(PeerInput::Suspected(node)),
            DetectorOutput::Trusted(node) => handle(PeerInput::Alive(node)),
            // Its earlier start is gone, and its new one is there.
            DetectorOutput::Restarted(node, _) => {
                handle(PeerInput::Suspected(node));
                handle(PeerInput::Alive(node));
            }
        }
        true
    }

    fn send(&mut self, to: NodeId, payload: Payload) {
        self.replies.send(&self.transport, to, payload);
    }

    /// Sends this leader's metadata to a follower.
    fn send_metadata(&mut self, to: NodeId, epoch: Epoch) {
        if let Some(metadata) = self.metadata.message(epoch) {
            self.send(to, Payload::Metadata(metadata));
        }
    }

    /// Publishes these metadata of this leader to all other members; `None` if it does not lead.
    pub(super) fn proclaim(
        &mut self,
        metadata: BTreeMap<String, String>,
    ) -> Option<Result<(), ProclaimError>> {
        let leader = self.machine.node().leader();
        let (_, epoch) = leader.filter(|(leader, _)| *leader == self.me)?;
        if let Err(why) = LeaderMetadata::check(&metadata) {
            return Some(Err(ProclaimError::Metadata(why)));
        }
        self.metadata.proclaim(metadata);
        let members = self.machine.node().settings().members();
        let others: Vec<NodeId> = members.others(self.me).collect();
        for other in others {
            self.send_metadata(other, epoch);
        }
        self.metadata.show(leader);
        Some(Ok(()))
    }

    /// The other member that is this candidate.
    pub(super) fn peer(&self, to: &CandidateId) -> Option<NodeId> {
        let mut others = self.machine.node().settings().members().others(self.me);
        others.find(|&node| CandidateId::from(node) == *to)
    }
}

impl StrategyIo for Peers {
    type Machine = PeerCandidate;
    type Input = PeersInput;

    fn machine(&self) -> &PeerCandidate {
        self.machine()
    }

    fn machine_mut(&mut self) -> &mut PeerCandidate {
        self.machine_mut()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout(now);
    }

    fn poll_term_event(&mut self, now: Instant) -> Option<TermEvent> {
        self.poll(now, |peers, effect| peers.execute(now, effect))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.poll_timeout()
    }

    fn peer(&self, to: &CandidateId) -> Result<NodeId, &'static str> {
        self.peer(to).ok_or(NO_SUCH_MEMBER)
    }

    fn proclaim(&mut self, metadata: BTreeMap<String, String>, done: oneshot::Sender<Proclaimed>) {
        let _ = done.send(self.proclaim(metadata));
    }

    fn next_input(&mut self) -> Option<BoxFuture<'_, PeersInput>> {
        Some(Box::pin(self.next_input()))
    }

    fn handle_input(&mut self, now: Instant, input: PeersInput) {
        self.handle_input(now, input);
    }
}

/// The term that this message renews or announces.
const fn renewed(message: &PeerMessage) -> Option<Epoch> {
    match message {
        PeerMessage::Quorum(QuorumMessage::Renew { epoch, .. })
        | PeerMessage::Norm { epoch, .. }
        | PeerMessage::Ldr { epoch, .. } => Some(*epoch),
        _ => None,
    }
}

//! Election among peers.

mod carrier;
mod metadata;
mod persistence;
mod renewals;
mod replies;
mod status;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::bully::{PeerCandidate, PeerEffect, PeerInput, PeerMessage, QuorumMessage};
use tenure_core::detector::{Candidacy, Detector, DetectorInput, DetectorOutput};
use tenure_core::election::fallback::FallbackCandidate;
use tenure_core::election::joint::{Joint, JointEffect};
use tenure_core::election::{
    AnyMachine, CampaignFailure, ElectionMachine as _, EndReason, Output, Standing, TermEvent,
};
use tenure_core::lease::candidate::{LeaseCandidate, RELEASE_LIMIT};
use tenure_core::{CandidateId, Epoch, Incarnation, Instant, NodeId};
use tokio::sync::watch;
use tracing::error;

use super::channel::LeaseChannel;
use super::term::Proclaimer;
use crate::base::clock::Clock;
use crate::base::observed::Observed;
use crate::base::random::OsRandom;
use crate::config::Config;
use crate::election::error::ProclaimError;
use crate::election::metrics::Recorder;
use crate::peers::transport::{IncomingMessage, PeerEvent, PeerTransport};
use crate::peers::wire::{LeaderMetadata, Payload, Status};

use carrier::Carrier;
use metadata::Metadata;
pub(crate) use persistence::Disk;
use persistence::Persistence;
use renewals::Rounds;
use replies::Replies;

/// The interval of the check whether the last messages of a term have been sent.
const FLUSH_INTERVAL: Duration = Duration::from_millis(10);

/// A member's machine and failure detector, with its transport and its disk.
pub(crate) struct Peers {
    config: Arc<Config>,
    me: NodeId,
    clock: Clock,
    /// Never a machine for a lease alone.
    pub(super) machine: AnyMachine,
    /// The channel to the lease service, if the machine also needs a lease.
    pub(super) lease: Option<LeaseChannel>,
    detector: Box<dyn Detector + Send>,
    candidacy: Candidacy,
    transport: PeerTransport,
    persistence: Persistence,
    replies: Replies,
    rounds: Rounds,
    metadata: Metadata,
    /// The last published status.
    status: Status,
    /// The time of the last message of each other member.
    heard: BTreeMap<NodeId, Instant>,
    /// The time at which the task of the last term was gone.
    pub(super) stopped: Instant,
    /// A term that is over, but whose last messages are still being sent.
    ended: Option<Ended>,
    /// The reason why this member may not take part any more.
    banned: Option<String>,
    /// The voters of the term of this member, with a fallback.
    carrier: Option<Carrier>,
}

/// The parts of a member.
pub(crate) struct Parts {
    pub(crate) machine: PeerCandidate,
    pub(crate) detector: Box<dyn Detector + Send>,
    pub(crate) transport: PeerTransport,
    /// The disk; `None` for a member that has no state to store.
    pub(crate) disk: Option<Disk>,
}

/// A term that is over while its last messages are being sent.
#[derive(Clone, Copy)]
struct Ended {
    epoch: Epoch,
    reason: EndReason,
    /// The time of the next check whether the messages have been sent.
    check_at: Instant,
    /// The time at which all messages have been sent or are certainly lost, or at which the end of
    /// the term waits no longer.
    until: Instant,
}

impl Peers {
    /// Creates a member, which also competes for a lease if it has a channel to a lease service.
    /// Returns it with a receiver of the leader that it sees.
    pub(crate) fn new(
        config: &Arc<Config>,
        clock: Clock,
        parts: Parts,
        lease: Option<LeaseChannel>,
        metrics: Arc<Recorder>,
    ) -> (Self, watch::Receiver<Observed>) {
        let node = parts.machine;
        let me = node.settings().me();
        let status = Status {
            strategy: config.strategy_name().into(),
            ..Status::of(me, Incarnation(node.incarnation()))
        };
        let machine = match &lease {
            None => AnyMachine::Peers(Box::new(node)),
            Some(_) if config.fallback.is_some() => {
                AnyMachine::Fallback(Box::new(FallbackCandidate::new(node, clock.now())))
            }
            Some(_) => {
                let by_lease = LeaseCandidate::new(config.timings);
                AnyMachine::Joint(Box::new(Joint::new(by_lease, node)))
            }
        };
        let metadata = Metadata::new(me, config.metadata.clone());
        let observed = metadata.observed.subscribe();
        let peers = Self {
            config: config.clone(),
            me,
            clock,
            machine,
            lease,
            detector: parts.detector,
            candidacy: Candidacy::default(),
            transport: parts.transport,
            persistence: Persistence::new(parts.disk),
            replies: Replies::default(),
            rounds: Rounds::new(metrics),
            metadata,
            status,
            heard: BTreeMap::new(),
            stopped: Instant::default(),
            ended: None,
            banned: None,
            carrier: None,
        };
        (peers, observed)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.detector.handle_timeout(now);
        self.machine.handle_timeout(now, &mut OsRandom);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let of_machine = self.machine.poll_timeout();
        let of_detector = self.detector.poll_timeout();
        let of_replies = self.replies.poll_timeout();
        let of_ended = self.ended.map(|ended| ended.check_at);
        let of_carrier = self.poll_carrier();
        let timeouts = [of_machine, of_detector, of_replies, of_ended, of_carrier];
        timeouts.into_iter().flatten().min()
    }

    /// Waits for input and handles it. This method is cancel safe: no input is lost.
    pub(super) async fn receive(&mut self) {
        tokio::select! {
            event = self.transport.recv() => self.handle_event(self.clock.now(), event),
            written = self.persistence.next_written() => {
                self.handle_written(self.clock.now(), written);
            }
        }
    }

    /// Executes the machine's effects until the next term event.
    pub(super) fn poll_term_event(&mut self, now: Instant) -> Option<TermEvent> {
        self.drain(now).or_else(|| {
            self.end_turn(now);
            self.poll_ended(now)
        })
    }

    /// Returns why the term can't be handed over to this candidate.
    pub(super) fn check_successor(&self, to: &CandidateId) -> Result<(), &'static str> {
        let member = node(&self.machine).member_of(to);
        member
            .filter(|&member| member != self.me)
            .map(drop)
            .ok_or("there is no such member")
    }

    /// Publishes these metadata of the leader.
    pub(super) fn proclaim(&mut self, metadata: BTreeMap<String, String>, done: Proclaimer) {
        let node = node(&self.machine);
        let leader = node.leader();
        // If another member leads, this member's term is over. Dropping `done` reports that.
        let Some((_, epoch)) = leader.filter(|(leader, _)| *leader == self.me) else {
            return;
        };
        if let Err(why) = LeaderMetadata::check(&metadata) {
            let _ = done.send(Err(ProclaimError::Metadata(why)));
            return;
        }
        let others: Vec<NodeId> = node.settings().members().others(self.me).collect();
        self.metadata.proclaimed = Some(metadata.clone());
        for other in others {
            self.send_metadata(other, epoch);
        }
        match &self.lease {
            Some(lease) => lease.proclaim(self.machine.lease_id(), metadata, done),
            None => drop(done.send(Ok(()))),
        }
    }

    fn handle_event(&mut self, now: Instant, event: PeerEvent) {
        match event {
            PeerEvent::Message(incoming) => self.handle_message(now, incoming),
            PeerEvent::Refused(node) => self.detect(now, DetectorInput::Refused(node)),
            PeerEvent::Duplicate(duplicate) => self.ban(now, duplicate),
        }
    }

    fn handle_written(&mut self, now: Instant, written: io::Result<()>) {
        for _ in 0..self.persistence.handle_written(self.me, written) {
            self.machine
                .handle_peers(now, PeerInput::Persisted, &mut OsRandom);
        }
    }

    fn handle_message(&mut self, now: Instant, incoming: IncomingMessage) {
        let (from, incarnation) = (incoming.from, incoming.incarnation);
        if let Some(reply) = incoming.reply {
            let of_election = matches!(incoming.payload, Payload::Election(_));
            // Half of the remaining time, so that the response arrives while the sender of the
            // request still waits.
            let wait_until = now + incoming.good_until.since(now) / 2;
            self.replies
                .open(from, reply, of_election.then_some(wait_until));
        }
        self.heard.insert(from, now);
        let heard = match incoming.payload {
            Payload::Detector(message) => DetectorInput::Message {
                from,
                incarnation,
                message,
            },
            Payload::Metadata(metadata) => {
                self.metadata.received = Some((from, metadata));
                DetectorInput::Heard { from, incarnation }
            }
            Payload::Election(message) => {
                let input = PeerInput::Message {
                    from,
                    incarnation,
                    message,
                };
                self.machine.handle_peers(now, input, &mut OsRandom);
                DetectorInput::Heard { from, incarnation }
            }
        };
        self.detect(now, heard);
    }

    /// Excludes this member, because another process takes part with the same number. Two votes
    /// with one number make every majority invalid, so this process sends nothing any more.
    fn ban(&mut self, now: Instant, why: String) {
        error!(node = %self.me, error = why, "this member takes no part any more");
        self.transport = PeerTransport::Silent;
        self.replies.clear();
        self.banned = Some(why);
        self.machine
            .resign(now, EndReason::Superseded, &mut OsRandom);
    }

    /// Executes the effects of the machine and of the detector, up to the next term event.
    fn drain(&mut self, now: Instant) -> Option<TermEvent> {
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
                    Output::Effect(effect) => match (effect, &mut self.lease) {
                        (JointEffect::Peers(effect), _) => self.execute(now, effect),
                        (JointEffect::Store(effect), Some(lease)) => lease.execute(now, effect),
                        // Only a machine that needs a lease creates requests to the lease service.
                        (JointEffect::Store(_), None) => {}
                    },
                    // This process may end as soon as its caller knows that the task has ended. So
                    // the other members receive the end of the term first, and the next leader can
                    // lead at once.
                    Output::Term(TermEvent::Ended(epoch, reason)) => {
                        self.metadata.proclaimed = None;
                        let timings = node(&self.machine).settings().timings();
                        let sent_by = now + timings.message_lifetime();
                        self.ended = Some(Ended {
                            epoch,
                            reason,
                            check_at: now,
                            until: sent_by.min(self.stopped + RELEASE_LIMIT),
                        });
                    }
                    Output::Term(event) => return Some(event),
                }
            }
            if !self.execute_detector(now) {
                return None;
            }
        }
    }

    /// Ends a turn: sends the replies, and publishes all changes to observers and the status route.
    fn end_turn(&mut self, now: Instant) {
        if self.lease.is_none() {
            self.rounds.confirm(now, self.machine.standing(now));
        }
        let node = node(&self.machine);
        self.replies
            .flush(now, &self.transport, |to| node.holds_message_to(to));
        self.metadata.show(node.leader());
        self.follow_carrier(now);
        self.publish_status(now);
    }

    /// Returns the end of a term whose last messages have been sent.
    fn poll_ended(&mut self, now: Instant) -> Option<TermEvent> {
        let ended = self.ended.as_mut()?;
        if now < ended.until && !self.transport.is_idle() {
            ended.check_at = (now + FLUSH_INTERVAL).min(ended.until);
            return None;
        }
        let ended = self.ended.take()?;
        Some(TermEvent::Ended(ended.epoch, ended.reason))
    }

    fn execute(&mut self, now: Instant, effect: PeerEffect) {
        match effect {
            PeerEffect::Send { to, message } => {
                self.send(to, Payload::Election(message));
                // Metadata are sent with the renewals, so they need no delivery guarantee of their
                // own.
                if let PeerMessage::Quorum(QuorumMessage::Renew { round, .. }) = message
                    && self.lease.is_none()
                {
                    self.rounds.begin(now, round);
                }
                if let Some(epoch) = renewed(&message) {
                    self.send_metadata(to, epoch);
                }
            }
            PeerEffect::Persist(record) => {
                if self.persistence.persist(record) {
                    self.machine
                        .handle_peers(now, PeerInput::Persisted, &mut OsRandom);
                }
            }
            PeerEffect::Ask { node, round } => {
                self.detect(now, DetectorInput::Ask { node, ask: round });
            }
            PeerEffect::Watch(node) => self.detect(now, DetectorInput::Watch(node)),
            PeerEffect::Unwatch(node) => self.detect(now, DetectorInput::Unwatch(node)),
        }
    }

    fn detect(&mut self, now: Instant, input: DetectorInput) {
        self.detector.handle_input(now, input);
    }

    /// Executes an output of the detector. Returns whether there was one.
    fn execute_detector(&mut self, now: Instant) -> bool {
        let candidacy = if node(&self.machine).is_candidate(now) {
            Candidacy::Candidate
        } else {
            Candidacy::NonCandidate
        };
        if self.candidacy != candidacy {
            self.candidacy = candidacy;
            self.detect(now, DetectorInput::Candidacy(candidacy));
        }
        let Some(output) = self.detector.poll_output() else {
            return false;
        };
        let mut handle = |input| self.machine.handle_peers(now, input, &mut OsRandom);
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
            // The earlier process of the member has ended, and a new one has started.
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
}

/// Returns the member of this machine, which is none for a lease alone.
fn node(machine: &AnyMachine) -> &PeerCandidate {
    let node = machine.node();
    node.unwrap_or_else(|| unreachable!("a member has a machine for peers"))
}

/// Returns the epoch of the term that this message renews or announces.
const fn renewed(message: &PeerMessage) -> Option<Epoch> {
    match message {
        PeerMessage::Quorum(QuorumMessage::Renew { epoch, .. })
        | PeerMessage::Norm { epoch, .. }
        | PeerMessage::Ldr { epoch, .. } => Some(*epoch),
        _ => None,
    }
}

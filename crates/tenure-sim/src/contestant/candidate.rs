//! A candidate: one of the library's machines with a minimal driver.

use tenure_core::election::joint::{JointEffect, JointMessage};
use tenure_core::election::{
    AnyMachine, CampaignFailure, ElectionMachine as _, EndReason, Output, Standing, TermEvent,
};
use tenure_core::lease::candidate::{Answer, LeaseEffect};
use tenure_core::{Instant, NodeId, bully};

use super::Payload;
use super::peer_link::PeerLink;
use super::store_client::{StoreClient, node_of};
use crate::sim::{
    Context, HistoryEventKind, LeadershipClaim, Process, ProcessEffect, ProcessInput,
};

#[derive(Debug)]
pub(super) struct Candidate {
    me: NodeId,
    machine: AnyMachine,
    store: Option<StoreClient>,
    peers: Option<PeerLink>,
    /// Whether the candidate competes again after a term.
    stays: bool,
    left: bool,
}

impl Candidate {
    pub(super) fn start(
        me: NodeId,
        machine: AnyMachine,
        store: Option<StoreClient>,
        peers: Option<PeerLink>,
        context: &mut Context<'_>,
    ) -> Self {
        let mut candidate = Self {
            me,
            machine,
            store,
            peers,
            stays: true,
            left: false,
        };
        if candidate.peers.is_none() {
            candidate.run(context);
            return candidate;
        }
        if let AnyMachine::Joint(_) | AnyMachine::Fallback(_) = candidate.machine {
            // The machine passes on the outputs of its halves only after an input.
            candidate.machine.handle_timeout(context.now, context.rng);
        }
        if let Some(output) = candidate.machine.poll_output() {
            candidate.execute(context, output);
        }
        candidate
    }

    /// Begins after the write of the incarnation.
    fn begin(&mut self, context: &mut Context<'_>) {
        if let Some(peers) = &mut self.peers {
            peers.begun = true;
        }
        self.run(context);
    }

    fn handle_answer(&mut self, context: &mut Context<'_>, answered: Option<(u64, Answer)>) {
        let Some((attempt, answer)) = answered else {
            return;
        };
        let message = JointMessage::Store(attempt, answer);
        self.machine
            .handle_message(context.now, message, context.rng);
    }

    fn handle_persisted(&mut self, context: &mut Context<'_>) {
        self.machine
            .handle_peers(context.now, bully::PeerInput::Persisted, context.rng);
    }

    /// Executes all outputs, and campaigns again when a campaign or a term has ended.
    fn run(&mut self, context: &mut Context<'_>) {
        loop {
            while let Some(output) = self.machine.poll_output() {
                self.execute(context, output);
            }
            if let Some(peers) = &mut self.peers
                && peers.poll_detector(context, &mut self.machine)
            {
                continue;
            }
            if self.machine.standing(context.now) != Standing::Idle || self.left {
                return;
            }
            if !self.stays {
                self.left = true;
                context.emit(ProcessEffect::Exit);
                return;
            }
            self.machine.campaign(context.now, context.rng);
        }
    }

    fn execute(&mut self, context: &mut Context<'_>, output: Output<JointEffect>) {
        match output {
            Output::Effect(JointEffect::Store(LeaseEffect::Send {
                attempt,
                request,
                timeout,
            })) => {
                if let Some(store) = &mut self.store {
                    store.send(context, attempt, request, timeout);
                }
            }
            Output::Effect(JointEffect::Store(LeaseEffect::Retrying(..))) => {}
            Output::Effect(JointEffect::Peers(effect)) => {
                if let Some(peers) = &mut self.peers {
                    peers.execute(context, &effect);
                }
            }
            Output::Term(event) => self.handle_event(context, event),
        }
    }

    fn handle_event(&mut self, context: &mut Context<'_>, event: TermEvent) {
        match event {
            TermEvent::Began(epoch) => {
                context.emit(ProcessEffect::SeesLeader(Some(self.me)));
                context.emit(ProcessEffect::StartTask(Some(epoch)));
            }
            TermEvent::Cancel(reason) => context.emit(ProcessEffect::CancelTask(reason)),
            TermEvent::Abort => context.emit(ProcessEffect::AbortTask),
            TermEvent::Ended(_, reason) => {
                context.record(HistoryEventKind::TermEnded(reason));
                if self.peers.is_none() {
                    context.emit(ProcessEffect::SeesLeader(None));
                }
            }
            TermEvent::Failed(
                CampaignFailure::Refused(why)
                | CampaignFailure::Denied(why)
                | CampaignFailure::Barred(why),
            ) => {
                context.record(HistoryEventKind::Failed(why));
                self.stays = false;
            }
            TermEvent::LeaderSeen(leader) => {
                let leader = leader.and_then(|(leader, _)| node_of(&leader));
                context.emit(ProcessEffect::SeesLeader(leader));
            }
            TermEvent::AtRisk(_)
            | TermEvent::Lingering
            | TermEvent::Overrun
            | TermEvent::Withdrawn => {}
        }
    }
}

impl Process for Candidate {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        if self.peers.as_ref().is_some_and(|peers| !peers.begun) {
            match input {
                ProcessInput::Written => {
                    self.handle_persisted(context);
                    self.begin(context);
                }
                ProcessInput::Leave => self.stays = false,
                _ => {}
            }
            return;
        }
        let is_wake = matches!(input, ProcessInput::Wake);
        let now = context.now;
        match input {
            ProcessInput::Message { from, payload, age } => match payload.downcast_ref() {
                Some(Payload::StoreReply { id, answer }) => {
                    let store = self.store.as_mut();
                    let answered = store.and_then(|it| it.handle_answer(*id, answer.clone()));
                    self.handle_answer(context, answered);
                }
                Some(Payload::NotActive { id }) => {
                    let store = self.store.as_mut();
                    let failed = store.and_then(|it| it.handle_not_active(context, (from, *id)));
                    self.handle_answer(context, failed);
                }
                _ => {
                    if let Some(peers) = &mut self.peers {
                        peers.handle_message(context, &mut self.machine, (from, &*payload, age));
                    }
                }
            },
            ProcessInput::Refused(node) => match (&mut self.store, &mut self.peers) {
                (Some(store), _) if node == store.store() => {
                    let failed = store.ask_next(context, "connection lost");
                    self.handle_answer(context, failed);
                }
                (_, Some(peers)) => peers.handle_refused(context, node),
                _ => {}
            },
            ProcessInput::Written => self.handle_persisted(context),
            ProcessInput::TaskEnded(end) => self.machine.task_ended(now, end, context.rng),
            ProcessInput::Resign(reason) => self.machine.resign(now, reason, context.rng),
            ProcessInput::Leave => {
                self.stays = false;
                self.machine.resign(now, EndReason::ShutDown, context.rng);
            }
            ProcessInput::Wake | ProcessInput::Break(_) => {}
        }
        if let Some(store) = &mut self.store {
            let failed = store.handle_timeout(context);
            self.handle_answer(context, failed);
        }
        if is_wake && let Some(peers) = &mut self.peers {
            peers.handle_timeout(context);
        }
        if is_wake || self.peers.is_none() {
            self.machine.handle_timeout(now, context.rng);
        }
        self.run(context);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.peers.as_ref().is_some_and(|peers| !peers.begun) {
            return None;
        }
        let machine = self.machine.poll_timeout();
        let store = self.store.as_ref().and_then(StoreClient::poll_timeout);
        let peers = self.peers.as_ref().and_then(PeerLink::poll_timeout);
        [machine, store, peers].into_iter().flatten().min()
    }

    fn claim(&self, now: Instant) -> Option<LeadershipClaim> {
        match self.machine.standing(now) {
            Standing::Leading { epoch, until } => Some(LeadershipClaim {
                epoch: Some(epoch),
                until: Some(until),
            }),
            _ => None,
        }
    }
}

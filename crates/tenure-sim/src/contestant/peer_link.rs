//! A member's failure detector and its messages to other members.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_core::bully::{PeerEffect, PeerInput};
use tenure_core::detector::{
    Candidacy, Detector, DetectorInput, DetectorMessage, DetectorOutput, Verdict,
};
use tenure_core::{Incarnation, Instant, NodeId};

use super::machine::Machine;
use super::{OtherDetector, Payload};
use crate::mutation::Mutation;
use crate::sim::{Context, ProcessEffect, SimMessage};

/// A detector in the simulation.
#[derive(Debug)]
pub(super) enum SimDetector {
    /// A detector of the library.
    Library(Box<dyn Detector>),
    /// A detector of another crate, which has messages of its own.
    Other(Box<dyn OtherDetector>),
}

impl SimDetector {
    fn get_mut(&mut self) -> &mut dyn Detector {
        match self {
            Self::Library(detector) => detector.as_mut(),
            Self::Other(detector) => detector.as_mut(),
        }
    }
}

#[derive(Debug)]
pub(super) struct PeerLink {
    incarnation: Incarnation,
    detector: SimDetector,
    watches: bool,
    message_lifetime: Duration,
    mutation: Option<Mutation>,
    state: MutationState,
    candidacy: Candidacy,
    /// Whether the incarnation is on disk. Until then the member neither sends nor receives,
    /// because it might forget that incarnation.
    pub(super) begun: bool,
}

/// The state that mutations need.
#[derive(Debug, Default)]
struct MutationState {
    /// With [`Mutation::StaleDownList`]: the down list, and the members that got a recovery notice.
    listed: BTreeSet<NodeId>,
    notified: BTreeSet<NodeId>,
    /// With [`Mutation::LateVerdict`]: the time of a late report, the member, and the question.
    late: BTreeSet<(Instant, NodeId, u64)>,
}

/// With [`Mutation::LateVerdict`]: the longest delay. Every second verdict is late.
const LATE: Duration = Duration::from_secs(4);

impl PeerLink {
    pub(super) fn new(
        incarnation: Incarnation,
        detector: SimDetector,
        watches: bool,
        message_lifetime: Duration,
        mutation: Option<Mutation>,
    ) -> Self {
        Self {
            incarnation,
            detector,
            watches,
            message_lifetime,
            mutation,
            state: MutationState::default(),
            candidacy: Candidacy::default(),
            begun: false,
        }
    }

    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Returns the latest time for the next call of [`handle_timeout`](Self::handle_timeout).
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let late = self.state.late.first().map(|(due, ..)| *due);
        let detector = match &self.detector {
            SimDetector::Library(detector) => detector.poll_timeout(),
            SimDetector::Other(detector) => detector.poll_timeout(),
        };
        [detector, late].into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, context: &Context<'_>) {
        self.detector.get_mut().handle_timeout(context.now);
    }

    pub(super) fn handle_refused(&mut self, context: &Context<'_>, node: NodeId) {
        self.detector
            .get_mut()
            .handle_input(context.now, DetectorInput::Refused(node));
    }

    pub(super) fn handle_message(
        &mut self,
        context: &mut Context<'_>,
        machine: &mut Machine,
        (from, payload, age): (NodeId, &dyn SimMessage, Duration),
    ) {
        if age > self.message_lifetime && !self.has(Mutation::AckOfAny) {
            return;
        }
        let Some(payload) = payload.downcast_ref::<Payload>() else {
            if let SimDetector::Other(detector) = &mut self.detector {
                detector.handle_message(context.now, from, payload);
            }
            return;
        };
        let input = match payload.clone() {
            Payload::Detector(incarnation, DetectorMessage::Subscribe { .. })
                if self.has(Mutation::SubscriptionsIgnored) =>
            {
                DetectorInput::Heard { from, incarnation }
            }
            Payload::Detector(incarnation, message) => {
                if message == DetectorMessage::Recovered {
                    self.state.listed.remove(&from);
                }
                DetectorInput::Message {
                    from,
                    incarnation,
                    message,
                }
            }
            Payload::Peer(incarnation, message) => {
                let input = PeerInput::Message {
                    from,
                    incarnation,
                    message,
                };
                machine.handle_peers(context.now, input, context.rng);
                DetectorInput::Heard { from, incarnation }
            }
            _ => return,
        };
        self.detector.get_mut().handle_input(context.now, input);
    }

    pub(super) fn execute(
        &mut self,
        context: &mut Context<'_>,
        machine: &mut Machine,
        effect: &PeerEffect,
    ) {
        let input = match *effect {
            PeerEffect::Send { to, message } => {
                return context.send(to, Payload::Peer(self.incarnation, message));
            }
            PeerEffect::Persist(record) => {
                context.write(record);
                if self.has(Mutation::SayBeforeDisk) {
                    machine.handle_peers(context.now, PeerInput::Persisted, context.rng);
                }
                return;
            }
            PeerEffect::Ask { node, round } if self.state.listed.contains(&node) => {
                return answer(context, machine, (node, round), Verdict::Down);
            }
            PeerEffect::Ask { node, round } => DetectorInput::Ask { node, ask: round },
            PeerEffect::Watch(node) if self.watches => DetectorInput::Watch(node),
            PeerEffect::Watch(_) => return,
            PeerEffect::Unwatch(node) => DetectorInput::Unwatch(node),
        };
        self.detector.get_mut().handle_input(context.now, input);
    }

    /// Executes the next output of the detector, if it has one.
    pub(super) fn poll_detector(
        &mut self,
        context: &mut Context<'_>,
        machine: &mut Machine,
    ) -> bool {
        let stands = machine
            .peers()
            .is_some_and(|it| it.is_candidate(context.now));
        let candidacy = if stands {
            Candidacy::Candidate
        } else {
            Candidacy::NonCandidate
        };
        if self.candidacy != candidacy {
            self.candidacy = candidacy;
            self.detector
                .get_mut()
                .handle_input(context.now, DetectorInput::Candidacy(candidacy));
        }
        if let SimDetector::Other(detector) = &mut self.detector
            && let Some((to, message)) = detector.poll_message()
        {
            context.emit(ProcessEffect::Send(to, message));
            return true;
        }
        let Some(output) = self.detector.get_mut().poll_output() else {
            return false;
        };
        let suspected = match output {
            DetectorOutput::Send { to, message } => {
                if !self.withholds(to, &message) {
                    context.send(to, Payload::Detector(self.incarnation, message));
                }
                return true;
            }
            DetectorOutput::Answer {
                ask, node, verdict, ..
            } => {
                self.handle_verdict(context, machine, (node, ask), verdict);
                return true;
            }
            DetectorOutput::Trusted(node) => {
                machine.handle_peers(context.now, PeerInput::Alive(node), context.rng);
                return true;
            }
            DetectorOutput::Suspected(node) | DetectorOutput::Restarted(node, _) => node,
        };
        machine.handle_peers(context.now, PeerInput::Suspected(suspected), context.rng);
        // A member that has restarted is up, and has lost its state.
        if matches!(output, DetectorOutput::Restarted(..)) {
            machine.handle_peers(context.now, PeerInput::Alive(suspected), context.rng);
        }
        true
    }

    /// Returns whether a mutation suppresses this message.
    fn withholds(&mut self, to: NodeId, message: &DetectorMessage) -> bool {
        if *message != DetectorMessage::Recovered {
            return false;
        }
        let again = !self.state.notified.insert(to);
        (again && self.has(Mutation::StaleDownList)) || self.has(Mutation::NoNotice)
    }

    fn handle_verdict(
        &mut self,
        context: &mut Context<'_>,
        machine: &mut Machine,
        (node, round): (NodeId, u64),
        verdict: Verdict,
    ) {
        let down = verdict == Verdict::Down;
        if down && self.has(Mutation::StaleDownList) {
            self.state.listed.insert(node);
        }
        if down && self.has(Mutation::LateVerdict) && context.rng.happens(500_000) {
            let due = context.now + context.rng.between(Duration::ZERO, LATE);
            self.state.late.insert((due, node, round));
        } else {
            answer(context, machine, (node, round), verdict);
        }
    }

    /// Reports the verdicts that [`Mutation::LateVerdict`] has delayed until now.
    pub(super) fn report_late(&mut self, context: &mut Context<'_>, machine: &mut Machine) {
        let due = |late: &BTreeSet<(Instant, NodeId, u64)>, now| {
            late.first().is_some_and(|(due, ..)| *due <= now)
        };
        while due(&self.state.late, context.now)
            && let Some((_, node, round)) = self.state.late.pop_first()
        {
            answer(context, machine, (node, round), Verdict::Down);
        }
    }
}

fn answer(
    context: &mut Context<'_>,
    machine: &mut Machine,
    (node, round): (NodeId, u64),
    verdict: Verdict,
) {
    let answer = PeerInput::Answer {
        node,
        round,
        verdict,
    };
    machine.handle_peers(context.now, answer, context.rng);
}

//! A member's failure detector and its messages to other members.

use std::time::Duration;

use tenure_core::bully::{PeerEffect, PeerInput};
use tenure_core::detector::{Candidacy, Detector, DetectorInput, DetectorOutput};
use tenure_core::election::AnyMachine;
use tenure_core::{Incarnation, Instant, NodeId};

use super::{OtherDetector, Payload};
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
    candidacy: Candidacy,
    /// Whether the incarnation is on disk. Until then the member neither sends nor receives,
    /// because it might forget that incarnation.
    pub(super) begun: bool,
}

impl PeerLink {
    pub(super) fn new(
        incarnation: Incarnation,
        detector: SimDetector,
        watches: bool,
        message_lifetime: Duration,
    ) -> Self {
        Self {
            incarnation,
            detector,
            watches,
            message_lifetime,
            candidacy: Candidacy::default(),
            begun: false,
        }
    }

    /// Returns the latest time for the next call of [`handle_timeout`](Self::handle_timeout).
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match &self.detector {
            SimDetector::Library(detector) => detector.poll_timeout(),
            SimDetector::Other(detector) => detector.poll_timeout(),
        }
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
        machine: &mut AnyMachine,
        (from, payload, age): (NodeId, &dyn SimMessage, Duration),
    ) {
        if age > self.message_lifetime {
            return;
        }
        let Some(payload) = payload.downcast_ref::<Payload>() else {
            if let SimDetector::Other(detector) = &mut self.detector {
                detector.handle_message(context.now, from, payload);
            }
            return;
        };
        let input = match payload.clone() {
            Payload::Detector(incarnation, message) => DetectorInput::Message {
                from,
                incarnation,
                message,
            },
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

    pub(super) fn execute(&mut self, context: &mut Context<'_>, effect: &PeerEffect) {
        let input = match *effect {
            PeerEffect::Send { to, message } => {
                return context.send(to, Payload::Peer(self.incarnation, message));
            }
            PeerEffect::Persist(record) => return context.write(record),
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
        machine: &mut AnyMachine,
    ) -> bool {
        let stands = machine
            .node()
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
                context.send(to, Payload::Detector(self.incarnation, message));
                return true;
            }
            DetectorOutput::Answer {
                ask, node, verdict, ..
            } => {
                let answer = PeerInput::Answer {
                    node,
                    round: ask,
                    verdict,
                };
                machine.handle_peers(context.now, answer, context.rng);
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
}

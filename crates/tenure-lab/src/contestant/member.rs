//! A member of an election among peers: the library's node and detector, with the least of a driver.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tenure_core::bully::{self, GroupSettings, PeerCandidate, PeerEffect, Started};
use tenure_core::detector::{self, Candidacy};
use tenure_core::election::{CampaignFailure, ElectionMachine, Output, Standing, TermEvent};
use tenure_core::lease::candidate::EndReason;
use tenure_core::{Incarnation, Instant, NodeId};

use crate::detector::SimDetector;
use crate::fault::Mutation;
use crate::sim::{
    Context, DurableState, LeadershipClaim, Payload, Process, ProcessEffect, ProcessInput,
};

/// What a member is made of.
pub(super) struct Setup {
    pub(super) settings: GroupSettings,
    /// Whether it watches the others all the time.
    pub(super) watches: bool,
    pub(super) mutation: Option<Mutation>,
}

pub(super) struct Member {
    node: PeerCandidate,
    detector: SimDetector,
    incarnation: Incarnation,
    /// When the detector is to be woken. To ask it is dear with many peers; a message can only make it
    /// later for a detector that watches nobody.
    detector_due: Option<Instant>,
    lazy: bool,
    asked: bool,
    lifetime: Duration,
    mutation: Option<Mutation>,
    slips: MutationState,
    candidacy: Candidacy,
    /// Until its start is on disk it says nothing and hears nothing: it might forget that start.
    begun: bool,
    stays: bool,
    left: bool,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("node", &self.node)
            .field("detector", &self.detector)
            .finish_non_exhaustive()
    }
}

impl Member {
    /// A member that has just started.
    pub(super) fn start(
        setup: Setup,
        make: impl FnOnce(Instant, Incarnation) -> SimDetector,
        stable: Option<&DurableState>,
        context: &mut Context<'_>,
    ) -> Self {
        let Setup {
            settings,
            watches,
            mutation,
        } = setup;
        let mut record = match stable {
            Some(DurableState::Member(record)) => *record,
            _ => bully::HardState::default(),
        };
        if mutation == Some(Mutation::VoteForgotten) {
            record.highest = None;
            record.voted = None;
            record.accepted = None;
        }
        let started = Started {
            at: context.now,
            wall: context.wall,
        };
        let lifetime = settings.timings().message_lifetime();
        let node = PeerCandidate::new(settings, record, started);
        let incarnation = Incarnation(node.incarnation());
        let mut member = Self {
            detector: make(context.now, incarnation),
            node,
            incarnation,
            detector_due: None,
            lazy: !watches,
            asked: false,
            lifetime,
            mutation,
            slips: MutationState::default(),
            candidacy: Candidacy::default(),
            begun: false,
            stays: true,
            left: false,
        };
        if let Some(output) = member.node.poll_output() {
            member.take(context, output);
        }
        if member.has(Mutation::SayBeforeDisk) {
            member.begin(context);
        }
        member
    }

    fn begin(&mut self, context: &mut Context<'_>) {
        self.begun = true;
        self.obey(context);
        self.detector_due = self.detector.poll_timeout();
    }

    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    fn tell(&mut self, context: &mut Context<'_>, input: bully::PeerInput) {
        self.node.handle_message(context.now, input, context.rng);
    }

    /// Does what the two machines want, until they want nothing more.
    fn obey(&mut self, context: &mut Context<'_>) {
        loop {
            while let Some(output) = self.node.poll_output() {
                self.take(context, output);
            }
            if self.obey_detector(context) {
                continue;
            }
            if self.node.standing(context.now) != Standing::Idle || self.left {
                return;
            }
            if !self.stays {
                self.left = true;
                context.emit(ProcessEffect::Exit);
                return;
            }
            self.node.campaign(context.now, context.rng);
        }
    }

    fn take(&mut self, context: &mut Context<'_>, output: Output<PeerEffect>) {
        match output {
            Output::Effect(PeerEffect::Send { to, message }) => {
                context.send(to, Payload::Peer(self.incarnation, message));
            }
            Output::Effect(PeerEffect::Persist(record)) => {
                context.emit(ProcessEffect::Write(DurableState::Member(record)));
                if self.has(Mutation::SayBeforeDisk) {
                    self.tell(context, bully::PeerInput::Persisted);
                }
            }
            Output::Effect(PeerEffect::Ask { node, round })
                if self.slips.listed.contains(&node) =>
            {
                self.answer(context, node, round, detector::Verdict::Down);
            }
            Output::Effect(PeerEffect::Ask { node, round }) => {
                let ask = detector::DetectorInput::Ask { node, ask: round };
                self.detector.handle_input(context.now, ask);
                self.asked = true;
            }
            Output::Effect(PeerEffect::Watch(_)) if self.lazy => {}
            Output::Effect(PeerEffect::Watch(node)) => {
                let watch = detector::DetectorInput::Watch(node);
                self.detector.handle_input(context.now, watch);
            }
            Output::Effect(PeerEffect::Unwatch(node)) => {
                let unwatch = detector::DetectorInput::Unwatch(node);
                self.detector.handle_input(context.now, unwatch);
            }
            Output::Term(TermEvent::Began(epoch)) => {
                context.emit(ProcessEffect::StartTask(Some(epoch)));
                context.emit(ProcessEffect::SeesLeader(Some(self.node.settings().me())));
            }
            Output::Term(TermEvent::Cancel(reason)) => {
                context.emit(ProcessEffect::CancelTask(reason))
            }
            Output::Term(TermEvent::Abort) => context.emit(ProcessEffect::AbortTask),
            Output::Term(TermEvent::Ended(_, reason)) => {
                context.emit(ProcessEffect::TermEnded(reason))
            }
            Output::Term(TermEvent::LeaderSeen(leader)) => {
                context.emit(ProcessEffect::SeesLeader(
                    leader.and_then(|(leader, _)| super::candidate::node(&leader)),
                ));
            }
            Output::Term(TermEvent::Failed(
                CampaignFailure::Refused(why) | CampaignFailure::Barred(why),
            )) => {
                context.emit(ProcessEffect::Failed(why));
                self.stays = false;
            }
            Output::Term(TermEvent::AtRisk(_) | TermEvent::Overrun | TermEvent::Withdrawn) => {}
        }
    }

    /// Does what the detector wants; whether that was anything.
    fn obey_detector(&mut self, context: &mut Context<'_>) -> bool {
        let candidacy = if self.node.is_candidate(context.now) {
            Candidacy::Candidate
        } else {
            Candidacy::NonCandidate
        };
        if self.candidacy != candidacy {
            self.candidacy = candidacy;
            let input = detector::DetectorInput::Candidacy(candidacy);
            self.detector.handle_input(context.now, input);
        }
        if let Some((to, list)) = self.detector.poll_list() {
            context.send(to, Payload::Attendance(self.incarnation, list));
            return true;
        }
        let Some(output) = self.detector.poll_output() else {
            return false;
        };
        match output {
            detector::DetectorOutput::Send { to, message } => {
                let notice = message == detector::DetectorMessage::Recovered;
                let again = notice && !self.slips.told.insert(to);
                let unsaid = (again && self.has(Mutation::StaleDownList))
                    || (notice && self.has(Mutation::NoNotice));
                if !unsaid {
                    context.send(to, Payload::Detector(self.incarnation, message));
                }
            }
            detector::DetectorOutput::Answer {
                ask, node, verdict, ..
            } => {
                let down = verdict == detector::Verdict::Down;
                if down && self.has(Mutation::StaleDownList) {
                    self.slips.listed.insert(node);
                }
                if down && self.has(Mutation::LateVerdict) && context.rng.happens(500_000) {
                    let due = context.now + context.rng.between(Duration::ZERO, LATE);
                    self.slips.late.insert((due, node, ask));
                } else {
                    self.answer(context, node, ask, verdict);
                }
            }
            detector::DetectorOutput::Suspected(node) => {
                self.tell(context, bully::PeerInput::Suspected(node))
            }
            detector::DetectorOutput::Trusted(node) => {
                self.tell(context, bully::PeerInput::Alive(node))
            }
            // What it was before is gone, and what it is now is there.
            detector::DetectorOutput::Restarted(node, _) => {
                self.tell(context, bully::PeerInput::Suspected(node));
                self.tell(context, bully::PeerInput::Alive(node));
            }
        }
        true
    }

    fn answer(
        &mut self,
        context: &mut Context<'_>,
        node: NodeId,
        round: u64,
        verdict: detector::Verdict,
    ) {
        let answer = bully::PeerInput::Answer {
            node,
            round,
            verdict,
        };
        self.tell(context, answer);
    }

    fn hear(&mut self, context: &mut Context<'_>, from: NodeId, payload: Payload) {
        let heard = match payload {
            Payload::Detector(incarnation, message) => {
                if message == detector::DetectorMessage::Recovered {
                    self.slips.listed.remove(&from);
                }
                detector::DetectorInput::Message {
                    from,
                    incarnation,
                    message,
                }
            }
            Payload::Peer(incarnation, message) => {
                self.tell(context, bully::PeerInput::Message { from, message });
                detector::DetectorInput::Heard { from, incarnation }
            }
            Payload::Attendance(incarnation, list) => {
                self.detector
                    .handle_list(context.now, (from, incarnation), list);
                return;
            }
            _ => return,
        };
        self.detector.handle_input(context.now, heard);
    }
}

/// What mistakes on purpose need to be kept.
#[derive(Debug, Default)]
struct MutationState {
    /// With a stale down list planted: who is on it, and who was told that this one is back.
    listed: BTreeSet<NodeId>,
    told: BTreeSet<NodeId>,
    /// With late verdicts planted: who is down as the answer to which question, and when that is told.
    late: BTreeSet<(Instant, NodeId, u64)>,
}

impl MutationState {
    fn late_by(&mut self, now: Instant) -> Option<(Instant, NodeId, u64)> {
        let is_due = self.late.first().is_some_and(|(due, ..)| *due <= now);
        is_due.then(|| self.late.pop_first()).flatten()
    }
}

/// With late verdicts planted: how late at most. Every other one is.
const LATE: Duration = Duration::from_secs(4);

impl Process for Member {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        if !self.begun {
            match input {
                ProcessInput::Written => {
                    self.tell(context, bully::PeerInput::Persisted);
                    self.begin(context);
                }
                ProcessInput::Leave => self.stays = false,
                _ => {}
            }
            return;
        }
        let is_message = matches!(input, ProcessInput::Message { .. });
        match input {
            ProcessInput::Message { from, payload, age } => {
                if age <= self.lifetime || self.has(Mutation::AckOfAny) {
                    self.hear(context, from, payload);
                }
            }
            ProcessInput::Refused(node) => {
                let refused = detector::DetectorInput::Refused(node);
                self.detector.handle_input(context.now, refused);
            }
            ProcessInput::Written => {
                if !self.has(Mutation::SayBeforeDisk) {
                    self.tell(context, bully::PeerInput::Persisted);
                }
            }
            ProcessInput::TaskEnded(end) => self.node.task_ended(context.now, end, context.rng),
            ProcessInput::Resign(reason) => self.node.resign(context.now, reason, context.rng),
            ProcessInput::Leave => {
                self.stays = false;
                self.node
                    .resign(context.now, EndReason::ShutDown, context.rng);
            }
            ProcessInput::Wake => {
                self.detector.handle_timeout(context.now);
                self.node.handle_timeout(context.now, context.rng);
            }
            ProcessInput::Break(_) => {}
        }
        while let Some((_, node, round)) = self.slips.late_by(context.now) {
            self.answer(context, node, round, detector::Verdict::Down);
        }
        self.obey(context);
        if std::mem::take(&mut self.asked) || !(self.lazy && is_message) {
            self.detector_due = self.detector.poll_timeout();
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if !self.begun {
            return None;
        }
        let node = self.node.poll_timeout();
        let late = self.slips.late.first().map(|(due, ..)| *due);
        [node, self.detector_due, late].into_iter().flatten().min()
    }

    fn claim(&self, now: Instant) -> Option<LeadershipClaim> {
        match self.node.standing(now) {
            Standing::Leading { epoch, until } => Some(LeadershipClaim {
                epoch: Some(epoch),
                until: Some(until),
            }),
            _ => None,
        }
    }
}

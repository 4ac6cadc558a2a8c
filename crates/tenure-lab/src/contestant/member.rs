//! A member of an election among peers: the library's node and detector, with the least of a driver.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tenure_core::bully::{self, GroupSettings, PeerCandidate, PeerOutput, Started};
use tenure_core::detector::{self, Candidacy, Detector};
use tenure_core::election::{ElectionMachine, Standing};
use tenure_core::lease::candidate::EndReason;
use tenure_core::{Incarnation, Instant, NodeId};

use crate::fault::Planted;
use crate::sim::{Claim, Effect, Here, Input, Payload, Process, Stable};

/// What a member is made of.
pub(super) struct Setup {
    pub(super) settings: GroupSettings,
    /// Whether it watches the others all the time.
    pub(super) watches: bool,
    pub(super) planted: Option<Planted>,
}

pub(super) struct Member {
    node: PeerCandidate,
    detector: Box<dyn Detector>,
    incarnation: Incarnation,
    /// When the detector is to be woken. To ask it is dear with many peers; a message can only make it
    /// later for a detector that watches nobody.
    detector_due: Option<Instant>,
    lazy: bool,
    asked: bool,
    lifetime: Duration,
    planted: Option<Planted>,
    slips: Slips,
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
        make: impl FnOnce(Instant, Incarnation) -> Box<dyn Detector>,
        stable: Option<&Stable>,
        here: &mut Here<'_>,
    ) -> Self {
        let Setup {
            settings,
            watches,
            planted,
        } = setup;
        let mut record = match stable {
            Some(Stable::Member(record)) => *record,
            _ => bully::HardState::default(),
        };
        if planted == Some(Planted::VoteForgotten) {
            record.highest = None;
            record.voted = None;
            record.obeyed = None;
        }
        let started = Started {
            at: here.now,
            wall: here.wall,
        };
        let lifetime = settings.timings().message_lifetime();
        let node = PeerCandidate::new(settings, record, started);
        let incarnation = Incarnation(node.incarnation());
        let mut member = Self {
            detector: make(here.now, incarnation),
            node,
            incarnation,
            detector_due: None,
            lazy: !watches,
            asked: false,
            lifetime,
            planted,
            slips: Slips::default(),
            candidacy: Candidacy::default(),
            begun: false,
            stays: true,
            left: false,
        };
        if let Some(output) = member.node.poll_output() {
            member.take(here, output);
        }
        if member.has(Planted::SayBeforeDisk) {
            member.begin(here);
        }
        member
    }

    fn begin(&mut self, here: &mut Here<'_>) {
        self.begun = true;
        self.obey(here);
        self.detector_due = self.detector.poll_timeout();
    }

    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    fn tell(&mut self, here: &mut Here<'_>, input: bully::PeerInput) {
        self.node.handle_message(here.now, input, here.dice);
    }

    /// Does what the two machines want, until they want nothing more.
    fn obey(&mut self, here: &mut Here<'_>) {
        loop {
            while let Some(output) = self.node.poll_output() {
                self.take(here, output);
            }
            if self.obey_detector(here) {
                continue;
            }
            if self.node.standing(here.now) != Standing::Idle || self.left {
                return;
            }
            if !self.stays {
                self.left = true;
                here.want(Effect::Exit);
                return;
            }
            self.node.campaign(here.now, here.dice);
        }
    }

    fn take(&mut self, here: &mut Here<'_>, output: PeerOutput) {
        match output {
            PeerOutput::Send { to, message } => {
                here.send(to, Payload::Election(self.incarnation, message));
            }
            PeerOutput::Persist(record) => {
                here.want(Effect::Write(Stable::Member(record)));
                if self.has(Planted::SayBeforeDisk) {
                    self.tell(here, bully::PeerInput::Persisted);
                }
            }
            PeerOutput::Ask { node, round } if self.slips.listed.contains(&node) => {
                self.answer(here, node, round, bully::Verdict::Down);
            }
            PeerOutput::Ask { node, round } => {
                let ask = detector::DetectorInput::Ask { node, ask: round };
                self.detector.handle_input(here.now, ask);
                self.asked = true;
            }
            PeerOutput::Watch(_) if self.lazy => {}
            PeerOutput::Watch(node) => {
                let watch = detector::DetectorInput::Watch(node);
                self.detector.handle_input(here.now, watch);
            }
            PeerOutput::Unwatch(node) => {
                let unwatch = detector::DetectorInput::Unwatch(node);
                self.detector.handle_input(here.now, unwatch);
            }
            PeerOutput::Began(epoch) => here.want(Effect::Began(Some(epoch))),
            PeerOutput::Cancel(reason) => here.want(Effect::Cancel(reason)),
            PeerOutput::Abort => here.want(Effect::Abort),
            PeerOutput::Ended(_, reason) => here.want(Effect::Ended(reason)),
            PeerOutput::SeenLeader(leader) => {
                here.want(Effect::Sees(leader.map(|(leader, _)| leader)));
            }
            PeerOutput::Failed(why) => {
                here.want(Effect::Failed(why));
                self.stays = false;
            }
            PeerOutput::AtRisk(_) | PeerOutput::Overrun | PeerOutput::Withdrawn => {}
        }
    }

    /// Does what the detector wants; whether that was anything.
    fn obey_detector(&mut self, here: &mut Here<'_>) -> bool {
        let candidacy = if self.node.stands(here.now) {
            Candidacy::Candidate
        } else {
            Candidacy::NonCandidate
        };
        if self.candidacy != candidacy {
            self.candidacy = candidacy;
            let input = detector::DetectorInput::Candidacy(candidacy);
            self.detector.handle_input(here.now, input);
        }
        let Some(output) = self.detector.poll_output() else {
            return false;
        };
        match output {
            detector::DetectorOutput::Send { to, message } => {
                let notice = message == detector::DetectorMessage::Recovered;
                let again = notice && !self.slips.told.insert(to);
                let unsaid = (again && self.has(Planted::StaleDownList))
                    || (notice && self.has(Planted::NoNotice));
                if !unsaid {
                    here.send(to, Payload::Detector(self.incarnation, message));
                }
            }
            detector::DetectorOutput::Answer {
                ask, node, verdict, ..
            } => {
                let verdict = verdict_of(verdict);
                let down = verdict == bully::Verdict::Down;
                if down && self.has(Planted::StaleDownList) {
                    self.slips.listed.insert(node);
                }
                if down && self.has(Planted::LateVerdict) && here.dice.happens(500_000) {
                    let due = here.now + here.dice.between(Duration::ZERO, LATE);
                    self.slips.late.insert((due, node, ask));
                } else {
                    self.answer(here, node, ask, verdict);
                }
            }
            detector::DetectorOutput::Suspected(node) => {
                self.tell(here, bully::PeerInput::Suspected(node))
            }
            detector::DetectorOutput::Trusted(node) => {
                self.tell(here, bully::PeerInput::Alive(node))
            }
            // What it was before is gone, and what it is now is there.
            detector::DetectorOutput::Restarted(node, _) => {
                self.tell(here, bully::PeerInput::Suspected(node));
                self.tell(here, bully::PeerInput::Alive(node));
            }
        }
        true
    }

    fn answer(&mut self, here: &mut Here<'_>, node: NodeId, round: u64, verdict: bully::Verdict) {
        let answer = bully::PeerInput::Answer {
            node,
            round,
            verdict,
        };
        self.tell(here, answer);
    }

    fn hear(&mut self, here: &mut Here<'_>, from: NodeId, payload: Payload) {
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
            Payload::Election(incarnation, message) => {
                self.tell(here, bully::PeerInput::Message { from, message });
                detector::DetectorInput::Heard { from, incarnation }
            }
            _ => return,
        };
        self.detector.handle_input(here.now, heard);
    }
}

/// What mistakes on purpose need to be kept.
#[derive(Debug, Default)]
struct Slips {
    /// With a stale down list planted: who is on it, and who was told that this one is back.
    listed: BTreeSet<NodeId>,
    told: BTreeSet<NodeId>,
    /// With late verdicts planted: who is down as the answer to which question, and when that is told.
    late: BTreeSet<(Instant, NodeId, u64)>,
}

impl Slips {
    fn late_by(&mut self, now: Instant) -> Option<(Instant, NodeId, u64)> {
        let is_due = self.late.first().is_some_and(|(due, ..)| *due <= now);
        is_due.then(|| self.late.pop_first()).flatten()
    }
}

/// With late verdicts planted: how late at most. Every other one is.
const LATE: Duration = Duration::from_secs(4);

pub(super) const fn verdict_of(verdict: detector::Verdict) -> bully::Verdict {
    match verdict {
        detector::Verdict::Up => bully::Verdict::Up,
        detector::Verdict::NonCandidate => bully::Verdict::NonCandidate,
        detector::Verdict::Down => bully::Verdict::Down,
    }
}

impl Process for Member {
    fn handle(&mut self, here: &mut Here<'_>, input: Input) {
        if !self.begun {
            match input {
                Input::Written => {
                    self.tell(here, bully::PeerInput::Persisted);
                    self.begin(here);
                }
                Input::Leave => self.stays = false,
                _ => {}
            }
            return;
        }
        let is_message = matches!(input, Input::Message { .. });
        match input {
            Input::Message { from, payload, age } => {
                if age <= self.lifetime || self.has(Planted::AckOfAny) {
                    self.hear(here, from, payload);
                }
            }
            Input::Refused(node) => {
                let refused = detector::DetectorInput::Refused(node);
                self.detector.handle_input(here.now, refused);
            }
            Input::Written => {
                if !self.has(Planted::SayBeforeDisk) {
                    self.tell(here, bully::PeerInput::Persisted);
                }
            }
            Input::TaskEnded(end) => self.node.task_ended(here.now, end, here.dice),
            Input::Resign(reason) => self.node.resign(here.now, reason, here.dice),
            Input::Leave => {
                self.stays = false;
                self.node.resign(here.now, EndReason::ShutDown, here.dice);
            }
            Input::Wake => {
                self.detector.handle_timeout(here.now);
                self.node.handle_timeout(here.now, here.dice);
            }
            Input::Break(_) => {}
        }
        while let Some((_, node, round)) = self.slips.late_by(here.now) {
            self.answer(here, node, round, bully::Verdict::Down);
        }
        self.obey(here);
        if std::mem::take(&mut self.asked) || !(self.lazy && is_message) {
            self.detector_due = self.detector.poll_timeout();
        }
    }

    fn due(&self) -> Option<Instant> {
        if !self.begun {
            return None;
        }
        let node = self.node.poll_timeout();
        let late = self.slips.late.first().map(|(due, ..)| *due);
        [node, self.detector_due, late].into_iter().flatten().min()
    }

    fn claim(&self, now: Instant) -> Option<Claim> {
        match self.node.standing(now) {
            Standing::Leading { epoch, until } => Some(Claim {
                epoch: Some(epoch),
                until: Some(until),
            }),
            _ => None,
        }
    }
}

//! A member of an election among peers: the library's node and detector, with the least of a driver.

use std::fmt;
use std::time::Duration;

use tenure_core::bully::{self, Node, Output, Settings, Started};
use tenure_core::detector::{self, Candidacy, Detector};
use tenure_core::lease::keeper::EndReason;
use tenure_core::strategy::{Standing, Strategy};
use tenure_core::{Incarnation, Instant, NodeId};

use crate::fault::Planted;
use crate::sim::{Claim, Effect, Here, Input, Payload, Process, Stable};

/// What a member is made of.
pub(super) struct Setup {
    pub(super) settings: Settings,
    /// Whether it watches the others all the time.
    pub(super) watches: bool,
    pub(super) planted: Option<Planted>,
}

pub(super) struct Member {
    node: Node,
    detector: Box<dyn Detector>,
    incarnation: Incarnation,
    /// When the detector is to be woken. To ask it is dear with many peers; a message can only make it
    /// later for a detector that watches nobody.
    detector_due: Option<Instant>,
    lazy: bool,
    asked: bool,
    lifetime: Duration,
    planted: Option<Planted>,
    candidacy: Candidacy,
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
            _ => bully::Record::default(),
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
        let node = Node::new(settings, record, started);
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
            candidacy: Candidacy::default(),
            stays: true,
            left: false,
        };
        member.obey(here);
        member.detector_due = member.detector.poll_timeout();
        member
    }

    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    fn tell(&mut self, here: &mut Here<'_>, input: bully::Input) {
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

    fn take(&mut self, here: &mut Here<'_>, output: Output) {
        match output {
            Output::Send { to, message } => {
                here.send(to, Payload::Election(self.incarnation, message));
            }
            Output::Persist(record) => {
                here.want(Effect::Write(Stable::Member(record)));
                if self.has(Planted::SayBeforeDisk) {
                    self.tell(here, bully::Input::Persisted);
                }
            }
            Output::Ask { node, round } => {
                let ask = detector::Input::Ask { node, ask: round };
                self.detector.handle_input(here.now, ask);
                self.asked = true;
            }
            Output::Watch(_) if self.lazy => {}
            Output::Watch(node) => {
                let watch = detector::Input::Watch(node);
                self.detector.handle_input(here.now, watch);
            }
            Output::Unwatch(node) => {
                let unwatch = detector::Input::Unwatch(node);
                self.detector.handle_input(here.now, unwatch);
            }
            Output::Began(epoch) => here.want(Effect::Began(Some(epoch))),
            Output::Cancel(reason) => here.want(Effect::Cancel(reason)),
            Output::Abort => here.want(Effect::Abort),
            Output::Ended(_, reason) => here.want(Effect::Ended(reason)),
            Output::SeenLeader(leader) => {
                here.want(Effect::Sees(leader.map(|(leader, _)| leader)));
            }
            Output::Failed(why) => {
                here.want(Effect::Failed(why));
                self.stays = false;
            }
            Output::AtRisk(_) | Output::Overrun | Output::Withdrawn => {}
        }
    }

    /// Does what the detector wants; whether that was anything.
    fn obey_detector(&mut self, here: &mut Here<'_>) -> bool {
        let candidacy = if self.node.stands(here.now) {
            Candidacy::Stands
        } else {
            Candidacy::Aside
        };
        if self.candidacy != candidacy {
            self.candidacy = candidacy;
            let input = detector::Input::Candidacy(candidacy);
            self.detector.handle_input(here.now, input);
        }
        let Some(output) = self.detector.poll_output() else {
            return false;
        };
        match output {
            detector::Output::Send { to, message } => {
                here.send(to, Payload::Detector(self.incarnation, message));
            }
            detector::Output::Answer {
                ask, node, verdict, ..
            } => self.tell(
                here,
                bully::Input::Answer {
                    node,
                    round: ask,
                    verdict: verdict_of(verdict),
                },
            ),
            detector::Output::Suspected(node) => self.tell(here, bully::Input::Suspected(node)),
            detector::Output::Trusted(node) => self.tell(here, bully::Input::Alive(node)),
            // What it was before is gone, and what it is now is there.
            detector::Output::Restarted(node, _) => {
                self.tell(here, bully::Input::Suspected(node));
                self.tell(here, bully::Input::Alive(node));
            }
        }
        true
    }

    fn hear(&mut self, here: &mut Here<'_>, from: NodeId, payload: Payload) {
        let heard = match payload {
            Payload::Detector(incarnation, message) => detector::Input::Message {
                from,
                incarnation,
                message,
            },
            Payload::Election(incarnation, message) => {
                self.tell(here, bully::Input::Message { from, message });
                detector::Input::Heard { from, incarnation }
            }
            _ => return,
        };
        self.detector.handle_input(here.now, heard);
    }
}

pub(super) const fn verdict_of(verdict: detector::Verdict) -> bully::Verdict {
    match verdict {
        detector::Verdict::Up => bully::Verdict::Up,
        detector::Verdict::Aside => bully::Verdict::Aside,
        detector::Verdict::Down => bully::Verdict::Down,
    }
}

impl Process for Member {
    fn handle(&mut self, here: &mut Here<'_>, input: Input) {
        let is_message = matches!(input, Input::Message { .. });
        match input {
            Input::Message { from, payload, age } => {
                if age <= self.lifetime {
                    self.hear(here, from, payload);
                }
            }
            Input::Refused(node) => {
                let refused = detector::Input::Refused(node);
                self.detector.handle_input(here.now, refused);
            }
            Input::Written => {
                if !self.has(Planted::SayBeforeDisk) {
                    self.tell(here, bully::Input::Persisted);
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
        self.obey(here);
        if std::mem::take(&mut self.asked) || !(self.lazy && is_message) {
            self.detector_due = self.detector.poll_timeout();
        }
    }

    fn due(&self) -> Option<Instant> {
        let node = self.node.poll_timeout();
        [node, self.detector_due].into_iter().flatten().min()
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

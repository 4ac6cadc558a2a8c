//! What all of these algorithms have around them.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_core::detector::{self, AskOptions, Detector, Group, OnDemand, OnDemandOptions};
use tenure_core::lease::candidate::EndReason;
use tenure_core::{Incarnation, Instant, NodeId};

use super::Pace;
use crate::sim::{Claim, Effect, Here, Input, Payload};

/// The failure detector, and what the world is told of who leads. Members are ranked by their number,
/// lower first.
#[derive(Debug)]
pub(super) struct Office {
    pub(super) me: NodeId,
    pub(super) members: Vec<NodeId>,
    pub(super) pace: Pace,
    incarnation: Incarnation,
    detector: OnDemand,
    /// Who was asked about and has not been answered for.
    asked: BTreeSet<NodeId>,
    leader: Option<NodeId>,
    leaves: bool,
}

/// What the detector has said.
#[derive(Clone, Copy, Debug)]
pub(super) enum News {
    Answer(NodeId, detector::Verdict),
    Suspected(NodeId),
}

impl Office {
    pub(super) fn new(
        me: NodeId,
        members: Vec<NodeId>,
        pace: Pace,
        incarnation: Incarnation,
    ) -> Self {
        let group = Group::new(me, incarnation, members.iter().copied());
        let ask = AskOptions {
            timeout: pace.timeout,
            pings: pace.pings,
            confirm: pace.timeout / 2,
            fresh: pace.fresh,
        };
        let poll = pace.poll.max(pace.timeout);
        let detector = OnDemand::new(&group, ask, OnDemandOptions { poll });
        Self {
            me,
            members,
            pace,
            incarnation,
            detector: detector.expect("the lab's own parameters"),
            asked: BTreeSet::new(),
            leader: None,
            leaves: false,
        }
    }

    pub(super) fn better(&self) -> Vec<NodeId> {
        let all = self.members.iter().copied();
        all.filter(|&node| node < self.me).collect()
    }

    pub(super) fn worse(&self) -> Vec<NodeId> {
        let all = self.members.iter().copied();
        all.filter(|&node| node > self.me).collect()
    }

    pub(super) fn others(&self) -> Vec<NodeId> {
        let all = self.members.iter().copied();
        all.filter(|&node| node != self.me).collect()
    }

    pub(super) fn leads(&self) -> bool {
        self.leader == Some(self.me)
    }

    pub(super) fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// Another one leads, or this one, or nobody.
    pub(super) fn follow(&mut self, here: &mut Here<'_>, leader: Option<NodeId>) {
        if self.leader == leader {
            return;
        }
        if self.leads() {
            here.want(Effect::Cancel(EndReason::Superseded));
        }
        self.leader = leader;
        here.want(Effect::Sees(leader));
        if self.leads() {
            here.want(Effect::Began(None));
        }
    }

    pub(super) fn watch(&mut self, here: &Here<'_>, node: NodeId) {
        self.detector
            .handle_input(here.now, detector::DetectorInput::Watch(node));
    }

    pub(super) fn unwatch(&mut self, here: &Here<'_>, node: NodeId) {
        self.detector
            .handle_input(here.now, detector::DetectorInput::Unwatch(node));
    }

    pub(super) fn is_asked(&self, node: NodeId) -> bool {
        self.asked.contains(&node)
    }

    pub(super) fn heard(&mut self, here: &Here<'_>, from: NodeId, incarnation: Incarnation) {
        self.detector.handle_input(
            here.now,
            detector::DetectorInput::Heard { from, incarnation },
        );
    }

    pub(super) fn ask(&mut self, here: &Here<'_>, node: NodeId) {
        self.asked.insert(node);
        self.detector
            .handle_input(here.now, detector::DetectorInput::Ask { node, ask: 0 });
    }

    pub(super) fn is_suspected(&self, node: NodeId) -> bool {
        self.detector.is_suspected(node)
    }

    /// Takes what concerns the office itself. Gives back what does not.
    pub(super) fn handle(
        &mut self,
        here: &mut Here<'_>,
        input: Input,
    ) -> Option<(NodeId, Payload)> {
        match input {
            Input::Message {
                from,
                payload: Payload::Detector(incarnation, message),
                ..
            } => {
                let input = detector::DetectorInput::Message {
                    from,
                    incarnation,
                    message,
                };
                self.detector.handle_input(here.now, input);
            }
            Input::Message { from, payload, .. } => return Some((from, payload)),
            Input::Refused(node) => {
                self.detector
                    .handle_input(here.now, detector::DetectorInput::Refused(node));
            }
            Input::Wake => self.detector.handle_timeout(here.now),
            // Its leader goes on leading, with another task.
            Input::TaskEnded(_) if self.leads() && !self.leaves => here.want(Effect::Began(None)),
            // None of them knows how to resign.
            Input::Leave => {
                self.leaves = true;
                here.want(Effect::Exit);
            }
            _ => {}
        }
        None
    }

    /// What the detector has to say next.
    pub(super) fn news(&mut self, here: &mut Here<'_>) -> Option<News> {
        while let Some(output) = self.detector.poll_output() {
            match output {
                detector::DetectorOutput::Send { to, message } => {
                    here.send(to, Payload::Detector(self.incarnation, message));
                }
                detector::DetectorOutput::Answer { node, verdict, .. } => {
                    self.asked.remove(&node);
                    return Some(News::Answer(node, verdict));
                }
                detector::DetectorOutput::Suspected(node)
                | detector::DetectorOutput::Restarted(node, _) => {
                    return Some(News::Suspected(node));
                }
                detector::DetectorOutput::Trusted(_) => {}
            }
        }
        None
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.detector.poll_timeout()
    }

    pub(super) fn claim(&self) -> Option<Claim> {
        self.leads().then_some(Claim {
            epoch: None,
            until: None,
        })
    }
}

/// So long, up to a tenth longer or shorter, so that nobody stays in step.
pub(super) fn about(here: &mut Here<'_>, duration: Duration) -> Duration {
    here.dice.between(duration * 9 / 10, duration * 11 / 10)
}

//! The part that all baselines share.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_core::detector::{self, AskOptions, Detector, Group, OnDemand};
use tenure_core::lease::candidate::EndReason;
use tenure_core::{Incarnation, Instant, NodeId};

use super::BaselineTimings;
use crate::sim::{Context, LeadershipClaim, Payload, ProcessEffect, ProcessInput};

/// The failure detector and the reports about the leader. A lower number is a better rank.
#[derive(Debug)]
pub(super) struct BaselineNode {
    pub(super) me: NodeId,
    pub(super) members: Vec<NodeId>,
    pub(super) timings: BaselineTimings,
    incarnation: Incarnation,
    detector: OnDemand,
    /// The members with an open question.
    asked: BTreeSet<NodeId>,
    leader: Option<NodeId>,
    leaves: bool,
}

/// A report of the detector.
#[derive(Clone, Copy, Debug)]
pub(super) enum DetectorNotice {
    Answer(NodeId, detector::Verdict),
    Suspected(NodeId),
}

impl BaselineNode {
    pub(super) fn new(
        me: NodeId,
        members: Vec<NodeId>,
        timings: BaselineTimings,
        incarnation: Incarnation,
    ) -> Self {
        let group = Group::new(me, incarnation, members.iter().copied());
        let ask = AskOptions {
            timeout: timings.timeout,
            pings: timings.pings,
            confirm: timings.timeout / 2,
            fresh: timings.fresh,
        };
        let poll = timings.poll.max(timings.timeout);
        let detector = OnDemand::new(&group, ask, poll);
        Self {
            me,
            members,
            timings,
            incarnation,
            detector,
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

    /// Changes the leader, and starts or stops the task.
    pub(super) fn set_leader(&mut self, context: &mut Context<'_>, leader: Option<NodeId>) {
        if self.leader == leader {
            return;
        }
        if self.leads() {
            context.emit(ProcessEffect::CancelTask(EndReason::Superseded));
        }
        self.leader = leader;
        context.emit(ProcessEffect::SeesLeader(leader));
        if self.leads() {
            context.emit(ProcessEffect::StartTask(None));
        }
    }

    pub(super) fn watch(&mut self, context: &Context<'_>, node: NodeId) {
        self.detector
            .handle_input(context.now, detector::DetectorInput::Watch(node));
    }

    pub(super) fn unwatch(&mut self, context: &Context<'_>, node: NodeId) {
        self.detector
            .handle_input(context.now, detector::DetectorInput::Unwatch(node));
    }

    pub(super) fn is_asked(&self, node: NodeId) -> bool {
        self.asked.contains(&node)
    }

    pub(super) fn heard(&mut self, context: &Context<'_>, from: NodeId, incarnation: Incarnation) {
        self.detector.handle_input(
            context.now,
            detector::DetectorInput::Heard { from, incarnation },
        );
    }

    pub(super) fn ask(&mut self, context: &Context<'_>, node: NodeId) {
        self.asked.insert(node);
        self.detector
            .handle_input(context.now, detector::DetectorInput::Ask { node, ask: 0 });
    }

    pub(super) fn is_suspected(&self, node: NodeId) -> bool {
        self.detector.is_suspected(node)
    }

    /// Handles the inputs that all baselines share, and returns the other messages.
    pub(super) fn handle(
        &mut self,
        context: &mut Context<'_>,
        input: ProcessInput,
    ) -> Option<(NodeId, Payload)> {
        match input {
            ProcessInput::Message {
                from,
                payload: Payload::Detector(incarnation, message),
                ..
            } => {
                let input = detector::DetectorInput::Message {
                    from,
                    incarnation,
                    message,
                };
                self.detector.handle_input(context.now, input);
            }
            ProcessInput::Message { from, payload, .. } => return Some((from, payload)),
            ProcessInput::Refused(node) => {
                self.detector
                    .handle_input(context.now, detector::DetectorInput::Refused(node));
            }
            ProcessInput::Wake => self.detector.handle_timeout(context.now),
            // The leader goes on with another task.
            ProcessInput::TaskEnded(_) if self.leads() && !self.leaves => {
                context.emit(ProcessEffect::StartTask(None))
            }
            // None of the algorithms can resign.
            ProcessInput::Leave => {
                self.leaves = true;
                context.emit(ProcessEffect::Exit);
            }
            _ => {}
        }
        None
    }

    /// The next report of the detector.
    pub(super) fn poll_detector(&mut self, context: &mut Context<'_>) -> Option<DetectorNotice> {
        while let Some(output) = self.detector.poll_output() {
            match output {
                detector::DetectorOutput::Send { to, message } => {
                    context.send(to, Payload::Detector(self.incarnation, message));
                }
                detector::DetectorOutput::Answer { node, verdict, .. } => {
                    self.asked.remove(&node);
                    return Some(DetectorNotice::Answer(node, verdict));
                }
                detector::DetectorOutput::Suspected(node)
                | detector::DetectorOutput::Restarted(node, _) => {
                    return Some(DetectorNotice::Suspected(node));
                }
                detector::DetectorOutput::Trusted(_) => {}
            }
        }
        None
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.detector.poll_timeout()
    }

    pub(super) fn claim(&self) -> Option<LeadershipClaim> {
        self.leads().then_some(LeadershipClaim {
            epoch: None,
            until: None,
        })
    }
}

/// A duration up to a tenth longer or shorter, so that members do not stay in step.
pub(super) fn jittered(context: &mut Context<'_>, duration: Duration) -> Duration {
    context.rng.between(duration * 9 / 10, duration * 11 / 10)
}

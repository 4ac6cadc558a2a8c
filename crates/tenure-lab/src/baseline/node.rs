//! The part that all baselines share.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_core::detector::{AskOptions, Detector, DetectorInput, DetectorOutput, Group, OnDemand};
use tenure_core::lease::candidate::EndReason;
use tenure_core::{Incarnation, Instant, NodeId};

use super::BaselineTimings;
use crate::sim::{Context, DurableState, Payload, ProcessEffect, ProcessInput};

/// The failure detector and the reports about the leader. A lower number is a better rank.
#[derive(Debug)]
pub struct BaselineNode {
    pub(super) me: NodeId,
    pub(super) members: Vec<NodeId>,
    pub(super) timings: BaselineTimings,
    pub(super) incarnation: Incarnation,
    pub(super) detector: OnDemand,
    /// The members about which a question is open.
    pub(super) asked: BTreeSet<NodeId>,
    pub(super) leader: Option<NodeId>,
    leaves: bool,
    /// The messages that wait for the end of a pending write.
    held: Option<Vec<(NodeId, Payload)>>,
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
            held: None,
        }
    }

    pub(super) fn better(&self) -> Vec<NodeId> {
        self.members_that(|node| node < self.me)
    }

    pub(super) fn worse(&self) -> Vec<NodeId> {
        self.members_that(|node| node > self.me)
    }

    pub(super) fn others(&self) -> Vec<NodeId> {
        self.members_that(|node| node != self.me)
    }

    fn members_that(&self, fit: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let all = self.members.iter().copied();
        all.filter(|&node| fit(node)).collect()
    }

    /// Writes to disk. Messages wait for the end of the write.
    pub(super) fn write(&mut self, context: &mut Context<'_>, state: DurableState) {
        context.emit(ProcessEffect::Write(state));
        self.held = Some(Vec::new());
    }

    /// Sends a message, after the pending write if there is one.
    pub(super) fn send(&mut self, context: &mut Context<'_>, to: NodeId, payload: Payload) {
        match &mut self.held {
            Some(held) => held.push((to, payload)),
            None => context.send(to, payload),
        }
    }

    pub(super) fn leads(&self) -> bool {
        self.leader == Some(self.me)
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

    /// Hands an input to the detector.
    pub(super) fn detect(&mut self, context: &Context<'_>, input: DetectorInput) {
        self.detector.handle_input(context.now, input);
    }

    pub(super) fn ask(&mut self, context: &Context<'_>, node: NodeId) {
        self.asked.insert(node);
        self.detect(context, DetectorInput::Ask { node, ask: 0 });
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
                let input = DetectorInput::Message {
                    from,
                    incarnation,
                    message,
                };
                self.detect(context, input);
            }
            ProcessInput::Message { from, payload, .. } => return Some((from, payload)),
            ProcessInput::Refused(node) => self.detect(context, DetectorInput::Refused(node)),
            ProcessInput::Wake => self.detector.handle_timeout(context.now),
            ProcessInput::Written => {
                for (to, payload) in self.held.take().into_iter().flatten() {
                    context.send(to, payload);
                }
            }
            // The leader continues with another task.
            ProcessInput::TaskEnded(_) if self.leads() && !self.leaves => {
                context.emit(ProcessEffect::StartTask(None))
            }
            // None of the algorithms supports resignation.
            ProcessInput::Leave => {
                self.leaves = true;
                context.emit(ProcessEffect::Exit);
            }
            _ => {}
        }
        None
    }

    /// Sends the messages of the detector until its next report.
    pub(super) fn poll_detector(&mut self, context: &mut Context<'_>) -> Option<DetectorOutput> {
        loop {
            match self.detector.poll_output()? {
                DetectorOutput::Send { to, message } => {
                    context.send(to, Payload::Detector(self.incarnation, message));
                }
                report => {
                    if let DetectorOutput::Answer { node, .. } = report {
                        self.asked.remove(&node);
                    }
                    return Some(report);
                }
            }
        }
    }

    /// Returns the time of the next poll, up to a tenth earlier or later, so that members do not
    /// poll at the same times.
    pub(super) fn next_poll(&self, context: &mut Context<'_>) -> Instant {
        context.now + jittered(context, self.timings.poll)
    }
}

/// Returns a duration up to a tenth longer or shorter.
pub(super) fn jittered(context: &mut Context<'_>, duration: Duration) -> Duration {
    context.rng.between(duration * 9 / 10, duration * 11 / 10)
}

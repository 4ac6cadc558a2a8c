//! The part that all baselines share.

use std::any::Any;
use std::rc::Rc;
use std::time::Duration;

use tenure_core::detector::{AskOptions, Detector, DetectorInput, DetectorOutput, Group, OnDemand};
use tenure_core::lease::candidate::EndReason;
use tenure_core::{Incarnation, Instant, NodeId};
use tenure_sim::contestant::Payload;
use tenure_sim::sim::{Context, ProcessEffect, ProcessInput, SimMessage};

use super::BaselineTimings;

/// The library's failure detector, if the algorithm uses it, and the reports about the leader. A
/// lower number is a better rank.
#[derive(Debug)]
pub struct BaselineNode {
    pub(super) me: NodeId,
    pub(super) members: Vec<NodeId>,
    pub(super) timings: BaselineTimings,
    pub(super) incarnation: Incarnation,
    pub(super) detector: Option<OnDemand>,
    pub(super) leader: Option<NodeId>,
    leaves: bool,
    /// The messages that wait for the end of a pending write.
    held: Option<Vec<(NodeId, Rc<dyn SimMessage>)>>,
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
            confirm: timings.timeout / 2,
            ..AskOptions::default()
        };
        let poll = timings.poll.max(timings.timeout);
        let detector = OnDemand::new(&group, ask, poll);
        Self {
            me,
            members,
            timings,
            incarnation,
            detector: Some(detector),
            leader: None,
            leaves: false,
            held: None,
        }
    }

    /// Returns the same node without the library's detector. Then the algorithm handles the messages
    /// of detectors itself, if it has one.
    pub(super) fn without_detector(self) -> Self {
        Self {
            detector: None,
            ..self
        }
    }

    pub(super) fn is_suspected(&self, node: NodeId) -> bool {
        let detector = self.detector.as_ref();
        detector.is_some_and(|it| it.is_suspected(node))
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
    pub(super) fn write(&mut self, context: &mut Context<'_>, state: impl Any) {
        context.write(state);
        self.held = Some(Vec::new());
    }

    /// Sends a message, after the pending write if there is one.
    pub(super) fn send(&mut self, context: &mut Context<'_>, to: NodeId, payload: impl SimMessage) {
        match &mut self.held {
            Some(held) => held.push((to, Rc::new(payload))),
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
        if let Some(detector) = &mut self.detector {
            detector.handle_input(context.now, input);
        }
    }

    /// Handles the inputs that all baselines share, and returns the other messages.
    pub(super) fn handle(
        &mut self,
        context: &mut Context<'_>,
        input: ProcessInput,
    ) -> Option<(NodeId, Rc<dyn SimMessage>)> {
        match input {
            ProcessInput::Message { from, payload, .. } => match payload.downcast_ref() {
                Some(Payload::Detector(incarnation, message)) if self.detector.is_some() => {
                    let input = DetectorInput::Message {
                        from,
                        incarnation: *incarnation,
                        message: message.clone(),
                    };
                    self.detect(context, input);
                }
                _ => return Some((from, payload)),
            },
            ProcessInput::Refused(node) => self.detect(context, DetectorInput::Refused(node)),
            ProcessInput::Wake => {
                if let Some(detector) = &mut self.detector {
                    detector.handle_timeout(context.now);
                }
            }
            ProcessInput::Written => {
                for (to, payload) in self.held.take().into_iter().flatten() {
                    context.emit(ProcessEffect::Send(to, payload));
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
            match self.detector.as_mut()?.poll_output()? {
                DetectorOutput::Send { to, message } => {
                    context.send(to, Payload::Detector(self.incarnation, message));
                }
                report => return Some(report),
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

//! Bully_FD exactly as it was published, with the detector that its papers describe.

mod machine;

#[cfg(test)]
mod tests;

pub use machine::{Published, PublishedInput, PublishedMessage, PublishedStatus};

use tenure_core::bully::Membership;
use tenure_core::detector::Verdict;
use tenure_core::{Incarnation, Instant, NodeId};

use super::node::{BaselineNode, DetectorNotice, jittered};
use super::{BaselineMember, BaselineTimings};
use crate::sim::{
    Context, DurableState, LeadershipClaim, Payload, Process, ProcessEffect, ProcessInput,
};

/// A member.
#[derive(Debug)]
pub struct PublishedMember {
    node: BaselineNode,
    incarnation: Incarnation,
    machine: Published,
    /// The number of its start is on disk before its first message leaves.
    durable: bool,
    held: Vec<(NodeId, Payload)>,
    poll_at: Instant,
}

impl PublishedMember {
    /// A member that recovers.
    pub fn start(
        me: NodeId,
        members: Membership,
        timings: BaselineTimings,
        stable: Option<&DurableState>,
        context: &mut Context<'_>,
    ) -> Self {
        let starts = match stable {
            Some(DurableState::Starts(starts)) => starts + 1,
            _ => 1,
        };
        context.emit(ProcessEffect::Write(DurableState::Starts(starts)));
        let incarnation = Incarnation(starts);
        let all = members.iter().collect();
        let mut member = Self {
            node: BaselineNode::new(me, all, timings, incarnation),
            incarnation,
            machine: Published::recovered(me, members, starts),
            durable: false,
            held: Vec::new(),
            poll_at: context.now + jittered(context, timings.poll),
        };
        member.go_on(context, None);
        member
    }

    /// A member that has a leader, and looks at it after a poll's time.
    pub(crate) fn settled(
        me: NodeId,
        members: Membership,
        timings: BaselineTimings,
        leader: NodeId,
        context: &mut Context<'_>,
    ) -> Self {
        let incarnation = Incarnation(1);
        let all = members.iter().collect();
        let mut member = Self {
            node: BaselineNode::new(me, all, timings, incarnation),
            incarnation,
            machine: Published::settled(me, members, leader),
            durable: true,
            held: Vec::new(),
            poll_at: context.now + jittered(context, timings.poll),
        };
        member.go_on(context, None);
        member
    }

    /// One event, and whatever the detector has to say at once.
    fn go_on(&mut self, context: &mut Context<'_>, input: Option<PublishedInput>) {
        let mut next = input;
        loop {
            if let Some(input) = next.take() {
                for (to, message) in self.machine.handle(input) {
                    self.send(context, to, Payload::Published(self.incarnation, message));
                }
            }
            self.node.set_leader(context, self.machine.leader());
            let asked: Vec<NodeId> = self.machine.asked().collect();
            for node in asked {
                if !self.node.is_asked(node) {
                    self.node.ask(context, node);
                }
            }
            match self.node.poll_detector(context) {
                Some(DetectorNotice::Answer(node, verdict)) => {
                    next = Some(PublishedInput::Answer(node, verdict));
                }
                Some(DetectorNotice::Suspected(_)) => {}
                None => break,
            }
        }
    }

    fn send(&mut self, context: &mut Context<'_>, to: NodeId, payload: Payload) {
        if self.durable {
            context.send(to, payload);
        } else {
            self.held.push((to, payload));
        }
    }
}

impl Process for PublishedMember {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        if matches!(input, ProcessInput::Written) && !self.durable {
            self.durable = true;
            for (to, payload) in std::mem::take(&mut self.held) {
                context.send(to, payload);
            }
        }
        let event = match self.node.handle(context, input) {
            Some((from, Payload::Published(incarnation, message))) => {
                self.node.heard(context, from, incarnation);
                Some(PublishedInput::Message(from, message))
            }
            _ => None,
        };
        self.go_on(context, event);
        if context.now >= self.poll_at {
            let poll = self.node.timings.poll;
            self.poll_at = context.now + jittered(context, poll);
            self.go_on(context, Some(PublishedInput::Poll));
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = self.node.due();
        Some(due.map_or(self.poll_at, |due| due.min(self.poll_at)))
    }

    fn claim(&self, _now: Instant) -> Option<LeadershipClaim> {
        self.node.claim()
    }
}

impl BaselineMember for PublishedMember {
    /// It has asked about its leader, and the answer is here.
    fn elect(&mut self, context: &mut Context<'_>) {
        if let Some(leader) = self.machine.leader() {
            self.machine.handle(PublishedInput::Poll);
            self.go_on(context, Some(PublishedInput::Answer(leader, Verdict::Down)));
        }
    }

    fn ask_about(&mut self, context: &mut Context<'_>, nodes: &[NodeId]) {
        for &node in nodes {
            self.node.ask(context, node);
        }
        self.go_on(context, None);
    }
}

//! Bully_FD exactly as it was published, with the detector that its papers describe.

mod machine;

#[cfg(test)]
mod tests;

pub use machine::{Published, PublishedInput, PublishedMessage, PublishedStatus};

use tenure_core::bully::{Member, Membership};
use tenure_core::detector::{DetectorInput, DetectorOutput, Verdict};
use tenure_core::{Instant, NodeId};

use super::Baseline;
use super::node::BaselineNode;
use crate::sim::{Context, DurableState, Payload};

/// A member of Bully_FD as published. Its incarnation is on disk before its first message leaves.
#[derive(Debug)]
pub struct PublishedMember {
    node: BaselineNode,
    machine: Published,
    poll_at: Instant,
}

fn members(node: &BaselineNode) -> Membership {
    let member = |&id| Member { id, priority: 0 };
    let members = Membership::of_any_size(node.members.iter().map(member));
    members.expect("one member or more")
}

impl PublishedMember {
    pub(super) fn new(node: BaselineNode) -> Self {
        Self {
            machine: Published::recovered(node.me, members(&node), node.incarnation.0),
            poll_at: Instant::from_nanos(0),
            node,
        }
    }

    /// Handles an input, and the reports that the detector returns at once.
    fn drain(&mut self, context: &mut Context<'_>, input: Option<PublishedInput>) {
        let mut next = input;
        loop {
            if let Some(input) = next.take() {
                let incarnation = self.node.incarnation;
                for (to, message) in self.machine.handle(input) {
                    let payload = Payload::Published(incarnation, message);
                    self.node.send(context, to, payload);
                }
            }
            self.node.set_leader(context, self.machine.leader());
            for node in self.machine.asked() {
                if !self.node.asked.contains(&node) {
                    self.node.ask(context, node);
                }
            }
            match self.node.poll_detector(context) {
                Some(DetectorOutput::Answer { node, verdict, .. }) => {
                    next = Some(PublishedInput::Answer(node, verdict));
                }
                Some(_) => {}
                None => break,
            }
        }
    }
}

impl Baseline for PublishedMember {
    fn node(&self) -> &BaselineNode {
        &self.node
    }

    fn node_mut(&mut self) -> &mut BaselineNode {
        &mut self.node
    }

    fn start(&mut self, context: &mut Context<'_>) {
        let starts = self.node.incarnation.0;
        self.node.write(context, DurableState::Starts(starts));
        self.poll_at = self.node.next_poll(context);
        self.drain(context, None);
    }

    fn settle(&mut self, context: &mut Context<'_>, leader: NodeId) {
        self.machine = Published::settled(self.node.me, members(&self.node), leader);
        self.poll_at = self.node.next_poll(context);
        self.drain(context, None);
    }

    fn step(&mut self, context: &mut Context<'_>, message: Option<(NodeId, Payload)>) {
        let input = match message {
            Some((from, Payload::Published(incarnation, message))) => {
                let heard = DetectorInput::Heard { from, incarnation };
                self.node.detect(context, heard);
                Some(PublishedInput::Message(from, message))
            }
            _ => None,
        };
        self.drain(context, input);
        if context.now >= self.poll_at {
            self.poll_at = self.node.next_poll(context);
            self.drain(context, Some(PublishedInput::Poll));
        }
    }

    fn due(&self) -> Option<Instant> {
        Some(self.poll_at)
    }

    /// Acts as if the member had asked about its leader, and the detector had reported it as down.
    fn elect(&mut self, context: &mut Context<'_>) {
        if let Some(leader) = self.machine.leader() {
            self.machine.handle(PublishedInput::Poll);
            self.drain(context, Some(PublishedInput::Answer(leader, Verdict::Down)));
        }
    }

    fn ask_about(&mut self, context: &mut Context<'_>, nodes: &[NodeId]) {
        for &node in nodes {
            self.node.ask(context, node);
        }
        self.drain(context, None);
    }
}

//! Bully_FD exactly as it was published, with the detector that its papers describe.

mod down_list;
mod machine;

#[cfg(test)]
mod tests;

pub use machine::{Published, PublishedInput, PublishedMessage, PublishedStatus};

use std::rc::Rc;

use tenure_core::bully::{Member, Membership};
use tenure_core::detector::Verdict;
use tenure_core::{Instant, NodeId};
use tenure_sim::contestant::Payload;
use tenure_sim::sim::{Context, SimMessage};

use self::down_list::DownList;
use super::node::BaselineNode;
use super::{Baseline, Starts};

/// A member of Bully_FD as published. Its incarnation is on disk before its first message leaves.
#[derive(Debug)]
pub struct PublishedMember {
    node: BaselineNode,
    detector: DownList,
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
            detector: DownList::new(node.incarnation, node.timings.timeout),
            poll_at: Instant::from_nanos(0),
            node: node.without_detector(),
        }
    }

    /// Handles an input. Then asks the detector about all members about which the machine waits for
    /// an answer. The detector answers at once if a member is listed.
    fn handle(&mut self, context: &mut Context<'_>, input: Option<PublishedInput>) {
        let mut next = input;
        loop {
            if let Some(input) = next.take() {
                for (to, message) in self.machine.handle(input) {
                    self.node.send(context, to, message);
                }
            }
            self.node.set_leader(context, self.machine.leader());
            let asked = self.machine.asked().find(|it| !self.detector.is_asked(*it));
            let Some(asked) = asked else {
                return;
            };
            let verdict = self.detector.ask(context, asked);
            next = verdict.map(|verdict| PublishedInput::Answer(asked, verdict));
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
        self.detector.send_notices(context, self.node.others());
        self.node.write(context, Starts(starts));
        self.poll_at = self.node.next_poll(context);
        self.handle(context, None);
    }

    fn settle(&mut self, context: &mut Context<'_>, leader: NodeId) {
        self.machine = Published::settled(self.node.me, members(&self.node), leader);
        self.poll_at = self.node.next_poll(context);
        self.handle(context, None);
    }

    fn step(&mut self, context: &mut Context<'_>, message: Option<(NodeId, Rc<dyn SimMessage>)>) {
        if let Some((from, message)) = message {
            if let Some(message) = message.downcast_ref() {
                self.handle(context, Some(PublishedInput::Message(from, *message)));
            } else if let Some(Payload::Detector(_, message)) = message.downcast_ref()
                && self.detector.handle(context, from, message)
            {
                self.handle(context, Some(PublishedInput::Answer(from, Verdict::Up)));
            }
        }
        while let Some(silent) = self.detector.next_silent(context.now) {
            self.handle(context, Some(PublishedInput::Answer(silent, Verdict::Down)));
        }
        if context.now >= self.poll_at {
            self.poll_at = self.node.next_poll(context);
            self.handle(context, Some(PublishedInput::Poll));
        }
    }

    fn due(&self) -> Option<Instant> {
        let question = self.detector.poll_timeout();
        [question, Some(self.poll_at)].into_iter().flatten().min()
    }

    /// Acts as if the member had asked about its leader, and the detector had reported it as down.
    /// A leader acts as if a member had answered its `Norm?` with `NotNorm`.
    fn elect(&mut self, context: &mut Context<'_>) {
        let Some(leader) = self.machine.leader() else {
            return;
        };
        let input = if leader == self.node.me {
            let election = self.machine.election();
            PublishedInput::Message(leader, PublishedMessage::NotNorm { election })
        } else {
            self.machine.handle(PublishedInput::Poll);
            PublishedInput::Answer(leader, Verdict::Down)
        };
        self.handle(context, Some(input));
    }

    fn list(&mut self, nodes: &[NodeId]) {
        self.detector.list(nodes);
    }
}

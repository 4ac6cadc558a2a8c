//! The algorithm of Chang and Roberts: only the best number passes around the whole ring.
//!
//! The original algorithm tolerates no failures. In this version, messages skip the members that
//! the detector suspects, and an election without progress starts again after some time.

use std::rc::Rc;

use serde::Serialize;
use tenure_core::detector::DetectorInput;
use tenure_core::{Instant, NodeId};
use tenure_sim::contestant::json_size;
use tenure_sim::sim::{Context, SimMessage};

use super::Baseline;
use super::node::{BaselineNode, jittered};

/// A message on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RingMessage {
    /// The best number so far.
    Election(NodeId),
    /// The winner.
    Elected(NodeId),
}

impl SimMessage for RingMessage {
    fn kind(&self) -> &'static str {
        match self {
            Self::Election(_) => "Election",
            Self::Elected(_) => "Elected",
        }
    }

    fn bytes(&self) -> u64 {
        json_size(self)
    }
}

/// A member.
#[derive(Debug)]
pub struct Ring {
    node: BaselineNode,
    /// The time at which the member's current election counts as stuck; `None` if there is none.
    taking_part: Option<Instant>,
}

impl Ring {
    pub(super) const fn new(node: BaselineNode) -> Self {
        Self {
            node,
            taking_part: None,
        }
    }

    fn campaign(&mut self, context: &mut Context<'_>) {
        self.node.set_leader(context, None);
        self.take_part(context);
        let me = self.node.me;
        self.pass(context, RingMessage::Election(me));
    }

    fn take_part(&mut self, context: &mut Context<'_>) {
        let patience = self.node.timings.timeout * 4;
        self.taking_part = Some(context.now + jittered(context, patience));
    }

    /// Sends the message to the next member that is not suspected.
    fn pass(&mut self, context: &mut Context<'_>, message: RingMessage) {
        let members = &self.node.members;
        let after = members.iter().filter(|&&node| node > self.node.me);
        let before = members.iter().filter(|&&node| node < self.node.me);
        let next = after.chain(before).copied();
        match next.into_iter().find(|&node| !self.node.is_suspected(node)) {
            Some(next) => context.send(next, message),
            // It is the only member.
            None => self.win(context),
        }
    }

    fn win(&mut self, context: &mut Context<'_>) {
        self.taking_part = None;
        let me = self.node.me;
        self.node.set_leader(context, Some(me));
    }

    fn handle_message(&mut self, context: &mut Context<'_>, message: RingMessage) {
        let me = self.node.me;
        match message {
            RingMessage::Election(best) if best < me => {
                self.take_part(context);
                self.pass(context, message);
            }
            RingMessage::Election(best) if best > me => {
                if self.taking_part.is_none() {
                    self.take_part(context);
                    self.pass(context, RingMessage::Election(me));
                }
            }
            RingMessage::Election(_) => {
                self.win(context);
                self.pass(context, RingMessage::Elected(me));
            }
            RingMessage::Elected(leader) if leader != me => {
                self.taking_part = None;
                self.node.set_leader(context, Some(leader));
                self.pass(context, message);
            }
            RingMessage::Elected(_) => {}
        }
    }
}

impl Baseline for Ring {
    fn node(&self) -> &BaselineNode {
        &self.node
    }

    fn node_mut(&mut self) -> &mut BaselineNode {
        &mut self.node
    }

    fn start(&mut self, context: &mut Context<'_>) {
        for node in self.node.others() {
            self.node.detect(context, DetectorInput::Watch(node));
        }
        self.campaign(context);
    }

    fn settle(&mut self, context: &mut Context<'_>, leader: NodeId) {
        self.node.set_leader(context, Some(leader));
    }

    fn step(&mut self, context: &mut Context<'_>, message: Option<(NodeId, Rc<dyn SimMessage>)>) {
        if let Some(message) = message.and_then(|(_, it)| it.downcast_ref().copied()) {
            self.handle_message(context, message);
        }
        if self.taking_part.is_some_and(|until| context.now >= until) {
            self.campaign(context);
        }
    }

    fn handle_suspected(&mut self, context: &mut Context<'_>, node: NodeId) {
        if self.node.leader == Some(node) {
            self.campaign(context);
        }
    }

    fn due(&self) -> Option<Instant> {
        self.taking_part
    }

    fn elect(&mut self, context: &mut Context<'_>) {
        self.campaign(context);
    }
}

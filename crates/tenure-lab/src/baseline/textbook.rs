//! The Bully algorithm of textbooks: Election, Answer, Coordinator.
//!
//! A member that starts, or finds the leader down, sends `Election` to all better members. Each of
//! them answers and does the same. A member that gets no answer announces itself to all others,
//! which follow it. The algorithm neither stops earlier leaders nor numbers elections.

use std::collections::BTreeSet;
use std::rc::Rc;

use serde::Serialize;
use tenure_core::detector::DetectorInput;
use tenure_core::{Instant, NodeId};
use tenure_sim::contestant::json_size;
use tenure_sim::sim::{Context, SimMessage};

use super::Baseline;
use super::node::BaselineNode;

/// A message between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TextbookMessage {
    /// The sender wants to lead, and asks whether a better member is up.
    Election,
    /// The sender is up and better: the recipient must not lead.
    Answer,
    /// The sender leads.
    Coordinator,
}

impl SimMessage for TextbookMessage {
    fn kind(&self) -> &'static str {
        match self {
            Self::Election => "Election",
            Self::Answer => "Answer",
            Self::Coordinator => "Coordinator",
        }
    }

    fn bytes(&self) -> u64 {
        json_size(self)
    }
}

/// A member.
#[derive(Debug)]
pub struct Textbook {
    node: BaselineNode,
    state: State,
    notifies: Notifies,
    /// The members that are down, if members have a down list. It is empty except in the
    /// measurements of the papers.
    listed: BTreeSet<NodeId>,
    /// The beginning of the last election.
    began: Option<Instant>,
}

/// The members that the winner notifies. Textbooks differ in this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notifies {
    /// All other members.
    All,
    /// Only the worse members, because the better ones did not answer. The papers count like this.
    /// They also count one election for each member: a member that is asked again within the
    /// timeout answers, and does not begin another election.
    Worse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is a leader.
    Settled,
    /// No better member has answered yet.
    Asking { until: Instant },
    /// A better member has answered.
    Waiting { until: Instant },
}

impl Textbook {
    pub(super) fn new(node: BaselineNode) -> Self {
        Self {
            node,
            state: State::Settled,
            notifies: Notifies::All,
            listed: BTreeSet::new(),
            began: None,
        }
    }

    fn campaign(&mut self, context: &mut Context<'_>) {
        self.forget_leader(context);
        self.began = Some(context.now);
        let better = self.without_listed(self.node.better());
        if better.is_empty() {
            self.win(context);
            return;
        }
        for node in better.into_iter().rev() {
            context.send(node, TextbookMessage::Election);
        }
        let until = context.sent() + self.node.timings.timeout;
        self.state = State::Asking { until };
    }

    fn without_listed(&self, mut nodes: Vec<NodeId>) -> Vec<NodeId> {
        nodes.retain(|it| !self.listed.contains(it));
        nodes
    }

    /// Returns whether the member has begun its part of the current election.
    fn takes_part(&self, now: Instant) -> bool {
        let timeout = self.node.timings.timeout;
        let is_recent = self.began.is_some_and(|began| now < began + timeout);
        self.state != State::Settled || (self.notifies == Notifies::Worse && is_recent)
    }

    fn forget_leader(&mut self, context: &mut Context<'_>) {
        if let Some(leader) = self.node.leader {
            self.node.detect(context, DetectorInput::Unwatch(leader));
        }
        self.node.set_leader(context, None);
    }

    fn win(&mut self, context: &mut Context<'_>) {
        self.state = State::Settled;
        let me = self.node.me;
        self.node.set_leader(context, Some(me));
        let notified = match self.notifies {
            Notifies::All => self.node.others(),
            Notifies::Worse => self.node.worse(),
        };
        for node in self.without_listed(notified) {
            context.send(node, TextbookMessage::Coordinator);
        }
    }

    fn handle_message(
        &mut self,
        context: &mut Context<'_>,
        from: NodeId,
        message: TextbookMessage,
    ) {
        match message {
            TextbookMessage::Election => {
                context.send(from, TextbookMessage::Answer);
                if !self.takes_part(context.now) {
                    self.campaign(context);
                }
            }
            TextbookMessage::Answer => {
                if matches!(self.state, State::Asking { .. }) {
                    // The better members may ask each other one after the other.
                    let rounds = self.node.better().len() as u32 + 1;
                    let until = context.now + self.node.timings.timeout * rounds;
                    self.state = State::Waiting { until };
                }
            }
            TextbookMessage::Coordinator => {
                self.forget_leader(context);
                self.state = State::Settled;
                self.node.set_leader(context, Some(from));
                if self.notifies == Notifies::All {
                    self.node.detect(context, DetectorInput::Watch(from));
                }
            }
        }
    }
}

impl Baseline for Textbook {
    fn node(&self) -> &BaselineNode {
        &self.node
    }

    fn node_mut(&mut self) -> &mut BaselineNode {
        &mut self.node
    }

    fn start(&mut self, context: &mut Context<'_>) {
        self.campaign(context);
    }

    /// In the papers the winner notifies only the worse members, and members do not watch each
    /// other.
    fn settle(&mut self, context: &mut Context<'_>, leader: NodeId) {
        self.notifies = Notifies::Worse;
        self.node.set_leader(context, Some(leader));
    }

    fn step(&mut self, context: &mut Context<'_>, message: Option<(NodeId, Rc<dyn SimMessage>)>) {
        if let Some((from, message)) = &message
            && let Some(message) = message.downcast_ref()
        {
            self.handle_message(context, *from, *message);
        }
        match self.state {
            State::Asking { until } if context.now >= until => self.win(context),
            State::Waiting { until } if context.now >= until => self.campaign(context),
            _ => {}
        }
    }

    fn handle_suspected(&mut self, context: &mut Context<'_>, node: NodeId) {
        if self.node.leader == Some(node) && self.state == State::Settled {
            self.campaign(context);
        }
    }

    fn due(&self) -> Option<Instant> {
        match self.state {
            State::Settled => None,
            State::Asking { until } | State::Waiting { until } => Some(until),
        }
    }

    fn elect(&mut self, context: &mut Context<'_>) {
        self.campaign(context);
    }

    fn list(&mut self, nodes: &[NodeId]) {
        self.listed.extend(nodes);
    }
}

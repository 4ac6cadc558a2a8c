//! The Bully algorithm of textbooks: Election, Answer, Coordinator.
//!
//! A member that starts, or finds the leader down, sends `Election` to all better members. They answer and
//! do the same. A member without an answer announces itself to all, and all follow it: the algorithm
//! neither stops earlier leaders nor numbers elections.

use tenure_core::{Incarnation, Instant, NodeId};

use serde::Serialize;

use super::node::{BaselineNode, DetectorNotice};
use super::{BaselineMember, BaselineTimings};
use crate::sim::{Context, LeadershipClaim, Payload, Process, ProcessInput};

/// A message between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TextbookMessage {
    /// Are you there? I would lead.
    Election,
    /// I am, and I am better: leave it to me.
    Answer,
    /// I lead.
    Coordinator,
}

impl TextbookMessage {
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Election => "Election",
            Self::Answer => "Answer",
            Self::Coordinator => "Coordinator",
        }
    }
}

/// A member.
#[derive(Debug)]
pub struct Textbook {
    node: BaselineNode,
    state: State,
    tells: Tells,
}

/// The members that the winner notifies. Textbooks differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// All others.
    All,
    /// The worse ones: the better ones did not answer.
    Worse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is a leader.
    Settled,
    /// Does a better one answer?
    Asking { until: Instant },
    /// A better one has answered.
    Waiting { until: Instant },
}

impl Textbook {
    /// A member that starts.
    pub fn start(
        me: NodeId,
        members: Vec<NodeId>,
        timings: BaselineTimings,
        life: u64,
        context: &mut Context<'_>,
    ) -> Self {
        let mut member = Self {
            node: BaselineNode::new(me, members, timings, Incarnation(life)),
            state: State::Settled,
            tells: Tells::All,
        };
        member.campaign(context);
        member
    }

    /// A member that has a leader and watches no member.
    pub(crate) fn settled(
        me: NodeId,
        members: Vec<NodeId>,
        timings: BaselineTimings,
        leader: NodeId,
        context: &mut Context<'_>,
    ) -> Self {
        let mut node = BaselineNode::new(me, members, timings, Incarnation(1));
        node.set_leader(context, Some(leader));
        Self {
            node,
            state: State::Settled,
            tells: Tells::Worse,
        }
    }

    fn campaign(&mut self, context: &mut Context<'_>) {
        self.forget_leader(context);
        let better = self.node.better();
        if better.is_empty() {
            self.win(context);
            return;
        }
        for node in better.into_iter().rev() {
            context.send(node, Payload::Textbook(TextbookMessage::Election));
        }
        let until = context.sent() + self.node.timings.timeout;
        self.state = State::Asking { until };
    }

    fn forget_leader(&mut self, context: &mut Context<'_>) {
        if let Some(leader) = self.node.leader() {
            self.node.unwatch(context, leader);
        }
        self.node.set_leader(context, None);
    }

    fn win(&mut self, context: &mut Context<'_>) {
        self.state = State::Settled;
        let me = self.node.me;
        self.node.set_leader(context, Some(me));
        let told = match self.tells {
            Tells::All => self.node.others(),
            Tells::Worse => self.node.worse(),
        };
        for node in told {
            context.send(node, Payload::Textbook(TextbookMessage::Coordinator));
        }
    }

    fn hear(&mut self, context: &mut Context<'_>, from: NodeId, message: TextbookMessage) {
        match message {
            TextbookMessage::Election => {
                context.send(from, Payload::Textbook(TextbookMessage::Answer));
                if self.state == State::Settled {
                    self.campaign(context);
                }
            }
            TextbookMessage::Answer => {
                if matches!(self.state, State::Asking { .. }) {
                    // The better ones may have to ask each other, one after the other.
                    let rounds = self.node.better().len() as u32 + 1;
                    let until = context.now + self.node.timings.timeout * rounds;
                    self.state = State::Waiting { until };
                }
            }
            TextbookMessage::Coordinator => {
                self.forget_leader(context);
                self.state = State::Settled;
                self.node.set_leader(context, Some(from));
                if self.tells == Tells::All {
                    self.node.watch(context, from);
                }
            }
        }
    }
}

impl Process for Textbook {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        if let Some((from, Payload::Textbook(message))) = self.node.handle(context, input) {
            self.hear(context, from, message);
        }
        match self.state {
            State::Asking { until } if context.now >= until => self.win(context),
            State::Waiting { until } if context.now >= until => self.campaign(context),
            _ => {}
        }
        while let Some(news) = self.node.poll_detector(context) {
            if let DetectorNotice::Suspected(node) = news
                && self.node.leader() == Some(node)
                && self.state == State::Settled
            {
                self.campaign(context);
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let own = match self.state {
            State::Settled => None,
            State::Asking { until } | State::Waiting { until } => Some(until),
        };
        [own, self.node.due()].into_iter().flatten().min()
    }

    fn claim(&self, _now: Instant) -> Option<LeadershipClaim> {
        self.node.claim()
    }
}

impl BaselineMember for Textbook {
    fn elect(&mut self, context: &mut Context<'_>) {
        self.campaign(context);
    }
}

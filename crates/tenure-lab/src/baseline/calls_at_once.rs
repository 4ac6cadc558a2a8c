//! Garcia-Molina's Bully algorithm with all calls of a phase at once. Nobody published this variant.
//! It shows how much of the gain of Bully_FD comes from asking at once, and how much from the
//! detector.
//!
//! A member that finds the leader down asks all better members at once whether they are up, halts
//! all worse ones at once, announces itself, and ends the election. It assumes that a member without
//! an answer in time is down. If that is wrong, there may be two leaders. A leader also elects anew
//! if a member follows another one, so leaders that meet do not stay apart for ever.

use std::collections::BTreeSet;
use std::rc::Rc;

use serde::Serialize;
use tenure_core::{Instant, NodeId};
use tenure_sim::contestant::json_size;
use tenure_sim::sim::{Context, SimMessage};

use super::Baseline;
use super::node::BaselineNode;

/// A message between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AtOnceMessage {
    /// The sender asks whether the recipient is up: a better member in an election, or the leader.
    AreYouThere,
    /// The answer to `AreYouThere`.
    Yes,
    /// The recipient must stop: there is an election.
    Halt,
    /// The sender has stopped.
    Halted,
    /// The sender is the new leader.
    NewCoordinator,
    /// The sender accepts the new leader.
    Accepted,
    /// The election is over.
    Ready,
    /// The leader asks whether the recipient follows it.
    AreYouNormal,
    /// The sender has no leader, or another one.
    No,
}

impl SimMessage for AtOnceMessage {
    fn kind(&self) -> &'static str {
        match self {
            Self::AreYouThere => "AreYouThere",
            Self::Yes => "Yes",
            Self::Halt => "Halt",
            Self::Halted => "Halted",
            Self::NewCoordinator => "NewCoordinator",
            Self::Accepted => "Accepted",
            Self::Ready => "Ready",
            Self::AreYouNormal => "AreYouNormal",
            Self::No => "No",
        }
    }

    fn bytes(&self) -> u64 {
        json_size(self)
    }
}

/// A member.
#[derive(Debug)]
pub struct CallsAtOnce {
    node: BaselineNode,
    state: State,
    /// The end of its timeout, or the time of its next poll.
    due: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The member asks the better members whether they are up.
    Asking,
    /// A better member is up, and organises the election.
    Deferring,
    /// These worse members have not answered `Halt` yet.
    Halting(BTreeSet<NodeId>),
    /// These members have not accepted the new leader yet.
    Announcing(BTreeSet<NodeId>, BTreeSet<NodeId>),
    /// The member has stopped for this member, and will follow it.
    Halted(NodeId),
    /// The member has accepted this leader, and waits for the end of the election.
    Reorganizing(NodeId),
    /// There is a leader. The flag tells whether it was asked and has not answered yet.
    Normal { asked: bool },
}

impl CallsAtOnce {
    pub(super) const fn new(node: BaselineNode) -> Self {
        Self {
            node,
            state: State::Asking,
            due: Instant::from_nanos(0),
        }
    }

    fn send(
        context: &mut Context<'_>,
        to: impl IntoIterator<Item = NodeId>,
        message: AtOnceMessage,
    ) {
        for node in to {
            context.send(node, message);
        }
    }

    fn wait(&mut self, context: &Context<'_>, state: State) {
        self.state = state;
        self.due = context.now + self.node.timings.timeout;
    }

    fn organise(&mut self, context: &mut Context<'_>) {
        self.node.set_leader(context, None);
        let better = self.node.better();
        if better.is_empty() {
            self.halt(context);
        } else {
            Self::send(context, better, AtOnceMessage::AreYouThere);
            self.wait(context, State::Asking);
        }
    }

    fn halt(&mut self, context: &mut Context<'_>) {
        Self::send(context, self.node.worse(), AtOnceMessage::Halt);
        self.wait(context, State::Halting(BTreeSet::new()));
        self.check_halted(context);
    }

    /// Announces itself as soon as all worse members have stopped.
    fn check_halted(&mut self, context: &mut Context<'_>) {
        if let State::Halting(up) = &self.state
            && up.len() == self.node.worse().len()
        {
            self.announce(context);
        }
    }

    fn announce(&mut self, context: &mut Context<'_>) {
        let State::Halting(up) = &self.state else {
            return;
        };
        let up = up.clone();
        Self::send(context, up.iter().copied(), AtOnceMessage::NewCoordinator);
        self.wait(context, State::Announcing(up.clone(), up));
        self.finish(context);
    }

    fn finish(&mut self, context: &mut Context<'_>) {
        if let State::Announcing(up, left) = &self.state
            && left.is_empty()
        {
            Self::send(context, up.iter().copied(), AtOnceMessage::Ready);
            self.follow(context, self.node.me);
        }
    }

    fn follow(&mut self, context: &mut Context<'_>, leader: NodeId) {
        self.node.set_leader(context, Some(leader));
        self.state = State::Normal { asked: false };
        self.due = self.node.next_poll(context);
    }

    fn handle_message(&mut self, context: &mut Context<'_>, from: NodeId, message: AtOnceMessage) {
        match message {
            AtOnceMessage::AreYouThere => Self::send(context, [from], AtOnceMessage::Yes),
            AtOnceMessage::Yes => match &mut self.state {
                State::Asking => {
                    self.state = State::Deferring;
                    // The time is longer than an election.
                    self.due = context.now + self.node.timings.timeout * 5;
                }
                State::Normal { asked } if *asked && self.node.leader == Some(from) => {
                    *asked = false;
                    self.due = self.node.next_poll(context);
                }
                _ => {}
            },
            AtOnceMessage::Halt => {
                self.node.set_leader(context, None);
                Self::send(context, [from], AtOnceMessage::Halted);
                self.wait(context, State::Halted(from));
                // The member waits as long as the organiser waits for the others.
                self.due = context.now + self.node.timings.timeout * 3;
            }
            AtOnceMessage::Halted => {
                if let State::Halting(up) = &mut self.state {
                    up.insert(from);
                    self.check_halted(context);
                }
            }
            AtOnceMessage::NewCoordinator => {
                if self.state == State::Halted(from) {
                    Self::send(context, [from], AtOnceMessage::Accepted);
                    self.wait(context, State::Reorganizing(from));
                    self.due = context.now + self.node.timings.timeout * 3;
                }
            }
            AtOnceMessage::Accepted => {
                if let State::Announcing(_, left) = &mut self.state {
                    left.remove(&from);
                    self.finish(context);
                }
            }
            AtOnceMessage::Ready => {
                if self.state == State::Reorganizing(from) {
                    self.follow(context, from);
                }
            }
            AtOnceMessage::AreYouNormal => {
                if self.node.leader != Some(from) {
                    Self::send(context, [from], AtOnceMessage::No);
                }
            }
            AtOnceMessage::No => {
                if self.node.leads() {
                    self.organise(context);
                }
            }
        }
    }

    fn handle_timeout(&mut self, context: &mut Context<'_>) {
        match &self.state {
            State::Asking => self.halt(context),
            State::Halting(_) => self.announce(context),
            // A member that had stopped is down, so the election starts again.
            State::Deferring
            | State::Announcing(..)
            | State::Halted(_)
            | State::Reorganizing(_) => {
                self.organise(context);
            }
            State::Normal { asked: true } => self.organise(context),
            State::Normal { asked: false } => {
                if self.node.leads() {
                    Self::send(context, self.node.others(), AtOnceMessage::AreYouNormal);
                    self.due = self.node.next_poll(context);
                } else if let Some(leader) = self.node.leader {
                    // A leader without an answer within the timeout is down.
                    Self::send(context, [leader], AtOnceMessage::AreYouThere);
                    self.state = State::Normal { asked: true };
                    self.due = context.now + self.node.timings.timeout;
                }
            }
        }
    }
}

impl Baseline for CallsAtOnce {
    fn node(&self) -> &BaselineNode {
        &self.node
    }

    fn node_mut(&mut self) -> &mut BaselineNode {
        &mut self.node
    }

    fn start(&mut self, context: &mut Context<'_>) {
        self.organise(context);
    }

    fn settle(&mut self, context: &mut Context<'_>, leader: NodeId) {
        self.follow(context, leader);
    }

    fn step(&mut self, context: &mut Context<'_>, message: Option<(NodeId, Rc<dyn SimMessage>)>) {
        if let Some((from, message)) = &message
            && let Some(message) = message.downcast_ref()
        {
            self.handle_message(context, *from, *message);
        }
        if context.now >= self.due {
            self.handle_timeout(context);
        }
    }

    fn due(&self) -> Option<Instant> {
        Some(self.due)
    }

    fn elect(&mut self, context: &mut Context<'_>) {
        self.organise(context);
    }
}

//! The Bully algorithm as Garcia-Molina published it in 1982: a member that finds the leader down asks all
//! better members whether they are up, halts all worse ones, announces itself, and lets them go on.
//!
//! It assumes that a member without an answer in time is down. If that is wrong there may be two leaders.

use std::collections::BTreeSet;

use serde::Serialize;
use tenure_core::{Incarnation, Instant, NodeId};

use super::node::{BaselineNode, jittered};
use super::{BaselineMember, BaselineTimings};
use crate::sim::{Context, LeadershipClaim, Payload, Process, ProcessInput};

/// A message between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassicMessage {
    /// "Are you there?", to better members in an election, and to the leader from time to time.
    AreYouThere,
    /// "Yes."
    Yes,
    /// "Stop: there is an election."
    Halt,
    /// "Stopped."
    Halted,
    /// "I am the new leader."
    NewCoordinator,
    /// "Accepted."
    Accepted,
    /// "Go on."
    Ready,
    /// "Are you normal?", from the leader.
    AreYouNormal,
    /// "No": the sender has no leader, or another one.
    No,
}

impl ClassicMessage {
    pub(crate) const fn kind(self) -> &'static str {
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
}

/// A member.
#[derive(Debug)]
pub struct Classic {
    node: BaselineNode,
    state: State,
    /// When its patience ends, or it looks again.
    look_at: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// It asks whether a better member is up.
    Asking,
    /// A better member is up, and organises the election.
    Deferring,
    /// The worse members have not answered `Halt` yet.
    Halting(BTreeSet<NodeId>),
    /// These members have not accepted the new leader yet.
    Naming(BTreeSet<NodeId>, BTreeSet<NodeId>),
    /// It has stopped for this member, and will follow it.
    Halted(NodeId),
    Reorganizing(NodeId),
    /// There is a leader; whether it was asked and has not answered.
    Normal {
        asked: bool,
    },
}

impl Classic {
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
            state: State::Asking,
            look_at: context.now,
        };
        member.organise(context);
        member
    }

    /// A member that has a leader, and looks at it after a poll's time.
    pub(crate) fn settled(
        me: NodeId,
        members: Vec<NodeId>,
        timings: BaselineTimings,
        leader: NodeId,
        context: &mut Context<'_>,
    ) -> Self {
        let mut member = Self {
            node: BaselineNode::new(me, members, timings, Incarnation(1)),
            state: State::Asking,
            look_at: context.now,
        };
        member.settle(context, leader);
        member
    }

    fn say(
        context: &mut Context<'_>,
        to: impl IntoIterator<Item = NodeId>,
        message: ClassicMessage,
    ) {
        for node in to {
            context.send(node, Payload::Classic(message));
        }
    }

    fn wait(&mut self, context: &Context<'_>, state: State) {
        self.state = state;
        self.look_at = context.now + self.node.timings.timeout;
    }

    fn organise(&mut self, context: &mut Context<'_>) {
        self.node.set_leader(context, None);
        let better = self.node.better();
        if better.is_empty() {
            self.halt(context);
        } else {
            Self::say(context, better, ClassicMessage::AreYouThere);
            self.wait(context, State::Asking);
        }
    }

    fn halt(&mut self, context: &mut Context<'_>) {
        Self::say(context, self.node.worse(), ClassicMessage::Halt);
        self.wait(context, State::Halting(BTreeSet::new()));
        self.halted(context);
    }

    /// Goes on as soon as all are accounted for.
    fn halted(&mut self, context: &mut Context<'_>) {
        if let State::Halting(up) = &self.state
            && up.len() == self.node.worse().len()
        {
            self.name(context);
        }
    }

    fn name(&mut self, context: &mut Context<'_>) {
        let State::Halting(up) = &self.state else {
            return;
        };
        let up = up.clone();
        Self::say(context, up.iter().copied(), ClassicMessage::NewCoordinator);
        self.wait(context, State::Naming(up.clone(), up));
        self.named(context);
    }

    fn named(&mut self, context: &mut Context<'_>) {
        if let State::Naming(up, left) = &self.state
            && left.is_empty()
        {
            Self::say(context, up.iter().copied(), ClassicMessage::Ready);
            self.settle(context, self.node.me);
        }
    }

    fn settle(&mut self, context: &mut Context<'_>, leader: NodeId) {
        self.node.set_leader(context, Some(leader));
        self.state = State::Normal { asked: false };
        let poll = self.node.timings.poll;
        self.look_at = context.now + jittered(context, poll);
    }

    fn hear(&mut self, context: &mut Context<'_>, from: NodeId, message: ClassicMessage) {
        match message {
            ClassicMessage::AreYouThere => Self::say(context, [from], ClassicMessage::Yes),
            ClassicMessage::Yes => match &mut self.state {
                State::Asking => {
                    self.state = State::Deferring;
                    // Longer than an election takes.
                    self.look_at = context.now + self.node.timings.timeout * 5;
                }
                State::Normal { asked } if self.node.leader() == Some(from) => *asked = false,
                _ => {}
            },
            ClassicMessage::Halt => {
                self.node.set_leader(context, None);
                Self::say(context, [from], ClassicMessage::Halted);
                self.wait(context, State::Halted(from));
                // As long as the organiser waits for the others.
                self.look_at = context.now + self.node.timings.timeout * 3;
            }
            ClassicMessage::Halted => {
                if let State::Halting(up) = &mut self.state {
                    up.insert(from);
                    self.halted(context);
                }
            }
            ClassicMessage::NewCoordinator => {
                if self.state == State::Halted(from) {
                    Self::say(context, [from], ClassicMessage::Accepted);
                    self.wait(context, State::Reorganizing(from));
                    self.look_at = context.now + self.node.timings.timeout * 3;
                }
            }
            ClassicMessage::Accepted => {
                if let State::Naming(_, left) = &mut self.state {
                    left.remove(&from);
                    self.named(context);
                }
            }
            ClassicMessage::Ready => {
                if self.state == State::Reorganizing(from) {
                    self.settle(context, from);
                }
            }
            ClassicMessage::AreYouNormal => {
                if self.node.leader() != Some(from) {
                    Self::say(context, [from], ClassicMessage::No);
                }
            }
            ClassicMessage::No => {
                if self.node.leads() {
                    self.organise(context);
                }
            }
        }
    }

    fn look(&mut self, context: &mut Context<'_>) {
        match &self.state {
            State::Asking => self.halt(context),
            State::Halting(_) => self.name(context),
            // A member that had stopped is down: start again.
            State::Deferring | State::Naming(..) | State::Halted(_) | State::Reorganizing(_) => {
                self.organise(context);
            }
            State::Normal { asked: true } => self.organise(context),
            State::Normal { asked: false } => {
                if self.node.leads() {
                    Self::say(context, self.node.others(), ClassicMessage::AreYouNormal);
                    let poll = self.node.timings.poll;
                    self.look_at = context.now + jittered(context, poll);
                } else if let Some(leader) = self.node.leader() {
                    // The answer is due by the next look; then it is asked again.
                    Self::say(context, [leader], ClassicMessage::AreYouThere);
                    self.state = State::Normal { asked: true };
                    self.look_at = context.now + self.node.timings.timeout;
                }
            }
        }
    }
}

impl Process for Classic {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        if let Some((from, Payload::Classic(message))) = self.node.handle(context, input) {
            let was_asked = self.state == State::Normal { asked: true };
            self.hear(context, from, message);
            if was_asked && self.state == (State::Normal { asked: false }) {
                let poll = self.node.timings.poll;
                self.look_at = context.now + jittered(context, poll);
            }
        }
        if context.now >= self.look_at {
            self.look(context);
        }
        // It needs no detector beside its own questions.
        while self.node.poll_detector(context).is_some() {}
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = self.node.due();
        Some(due.map_or(self.look_at, |due| due.min(self.look_at)))
    }

    fn claim(&self, _now: Instant) -> Option<LeadershipClaim> {
        self.node.claim()
    }
}

impl BaselineMember for Classic {
    fn elect(&mut self, context: &mut Context<'_>) {
        self.organise(context);
    }
}

//! The Bully algorithm as Garcia-Molina published it in 1982: whoever finds the leader gone asks all
//! better ones whether they are up, stops all worse ones, names itself and then tells them to go on.
//!
//! It assumes that whoever does not answer in time is down. Nothing keeps two apart where that is wrong.

use std::collections::BTreeSet;

use serde::Serialize;
use tenure_core::{Incarnation, Instant, NodeId};

use super::office::{Office, about};
use super::{Elects, Pace};
use crate::sim::{Claim, Here, Input, Payload, Process};

/// What members say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Are you there? To better ones in an election, and to the leader from time to time.
    AreYouThere,
    /// I am.
    Yes,
    /// Stop what you do: there is an election.
    Halt,
    /// I have.
    Halted,
    /// I am to lead.
    NewCoordinator,
    /// I follow.
    Accepted,
    /// Go on.
    Ready,
    /// Is all well with you? From the leader.
    AreYouNormal,
    /// No: I know of no leader, or of another one.
    No,
}

impl Message {
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
    office: Office,
    state: State,
    /// When its patience ends, or it looks again.
    look_at: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Is a better one up?
    Asking,
    /// A better one is: it is left to it.
    Deferring,
    /// Who of the worse ones stops?
    Halting(BTreeSet<NodeId>),
    /// Whom of these is it still to hear from that they follow?
    Naming(BTreeSet<NodeId>, BTreeSet<NodeId>),
    /// It has stopped for this one, and then follows it.
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
        pace: Pace,
        life: u64,
        here: &mut Here<'_>,
    ) -> Self {
        let mut member = Self {
            office: Office::new(me, members, pace, Incarnation(life)),
            state: State::Asking,
            look_at: here.now,
        };
        member.organise(here);
        member
    }

    /// A member that has a leader, and looks at it after a poll's time.
    pub(crate) fn settled(
        me: NodeId,
        members: Vec<NodeId>,
        pace: Pace,
        leader: NodeId,
        here: &mut Here<'_>,
    ) -> Self {
        let mut member = Self {
            office: Office::new(me, members, pace, Incarnation(1)),
            state: State::Asking,
            look_at: here.now,
        };
        member.settle(here, leader);
        member
    }

    fn say(here: &mut Here<'_>, to: impl IntoIterator<Item = NodeId>, message: Message) {
        for node in to {
            here.send(node, Payload::Classic(message));
        }
    }

    fn wait(&mut self, here: &Here<'_>, state: State) {
        self.state = state;
        self.look_at = here.now + self.office.pace.timeout;
    }

    fn organise(&mut self, here: &mut Here<'_>) {
        self.office.follow(here, None);
        let better = self.office.better();
        if better.is_empty() {
            self.halt(here);
        } else {
            Self::say(here, better, Message::AreYouThere);
            self.wait(here, State::Asking);
        }
    }

    fn halt(&mut self, here: &mut Here<'_>) {
        Self::say(here, self.office.worse(), Message::Halt);
        self.wait(here, State::Halting(BTreeSet::new()));
        self.halted(here);
    }

    /// Goes on as soon as all are accounted for.
    fn halted(&mut self, here: &mut Here<'_>) {
        if let State::Halting(up) = &self.state
            && up.len() == self.office.worse().len()
        {
            self.name(here);
        }
    }

    fn name(&mut self, here: &mut Here<'_>) {
        let State::Halting(up) = &self.state else {
            return;
        };
        let up = up.clone();
        Self::say(here, up.iter().copied(), Message::NewCoordinator);
        self.wait(here, State::Naming(up.clone(), up));
        self.named(here);
    }

    fn named(&mut self, here: &mut Here<'_>) {
        if let State::Naming(up, left) = &self.state
            && left.is_empty()
        {
            Self::say(here, up.iter().copied(), Message::Ready);
            self.settle(here, self.office.me);
        }
    }

    fn settle(&mut self, here: &mut Here<'_>, leader: NodeId) {
        self.office.follow(here, Some(leader));
        self.state = State::Normal { asked: false };
        let poll = self.office.pace.poll;
        self.look_at = here.now + about(here, poll);
    }

    fn hear(&mut self, here: &mut Here<'_>, from: NodeId, message: Message) {
        match message {
            Message::AreYouThere => Self::say(here, [from], Message::Yes),
            Message::Yes => match &mut self.state {
                State::Asking => {
                    self.state = State::Deferring;
                    // Longer than an election takes.
                    self.look_at = here.now + self.office.pace.timeout * 5;
                }
                State::Normal { asked } if self.office.leader() == Some(from) => *asked = false,
                _ => {}
            },
            Message::Halt => {
                self.office.follow(here, None);
                Self::say(here, [from], Message::Halted);
                self.wait(here, State::Halted(from));
                // As long as the organiser waits for the others.
                self.look_at = here.now + self.office.pace.timeout * 3;
            }
            Message::Halted => {
                if let State::Halting(up) = &mut self.state {
                    up.insert(from);
                    self.halted(here);
                }
            }
            Message::NewCoordinator => {
                if self.state == State::Halted(from) {
                    Self::say(here, [from], Message::Accepted);
                    self.wait(here, State::Reorganizing(from));
                    self.look_at = here.now + self.office.pace.timeout * 3;
                }
            }
            Message::Accepted => {
                if let State::Naming(_, left) = &mut self.state {
                    left.remove(&from);
                    self.named(here);
                }
            }
            Message::Ready => {
                if self.state == State::Reorganizing(from) {
                    self.settle(here, from);
                }
            }
            Message::AreYouNormal => {
                if self.office.leader() != Some(from) {
                    Self::say(here, [from], Message::No);
                }
            }
            Message::No => {
                if self.office.leads() {
                    self.organise(here);
                }
            }
        }
    }

    fn look(&mut self, here: &mut Here<'_>) {
        match &self.state {
            State::Asking => self.halt(here),
            State::Halting(_) => self.name(here),
            // Somebody who had stopped is gone: begin again.
            State::Deferring | State::Naming(..) | State::Halted(_) | State::Reorganizing(_) => {
                self.organise(here);
            }
            State::Normal { asked: true } => self.organise(here),
            State::Normal { asked: false } => {
                if self.office.leads() {
                    Self::say(here, self.office.others(), Message::AreYouNormal);
                    let poll = self.office.pace.poll;
                    self.look_at = here.now + about(here, poll);
                } else if let Some(leader) = self.office.leader() {
                    // The answer is due by the next look; then it is asked again.
                    Self::say(here, [leader], Message::AreYouThere);
                    self.state = State::Normal { asked: true };
                    self.look_at = here.now + self.office.pace.timeout;
                }
            }
        }
    }
}

impl Process for Classic {
    fn handle(&mut self, here: &mut Here<'_>, input: Input) {
        if let Some((from, Payload::Classic(message))) = self.office.handle(here, input) {
            let was_asked = self.state == State::Normal { asked: true };
            self.hear(here, from, message);
            if was_asked && self.state == (State::Normal { asked: false }) {
                let poll = self.office.pace.poll;
                self.look_at = here.now + about(here, poll);
            }
        }
        if here.now >= self.look_at {
            self.look(here);
        }
        // It needs no detector beside its own questions.
        while self.office.news(here).is_some() {}
    }

    fn due(&self) -> Option<Instant> {
        let due = self.office.due();
        Some(due.map_or(self.look_at, |due| due.min(self.look_at)))
    }

    fn claim(&self, _now: Instant) -> Option<Claim> {
        self.office.claim()
    }
}

impl Elects for Classic {
    fn elect(&mut self, here: &mut Here<'_>) {
        self.organise(here);
    }
}

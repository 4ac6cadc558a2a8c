//! The Bully algorithm as textbooks tell it: Election, Answer, Coordinator.
//!
//! A member that starts, or finds the leader gone, asks all better ones by `Election`. Whoever is asked
//! answers and does the same. Who gets no answer tells all that it leads, and everybody believes whoever
//! says so: nothing is stopped before, and nothing is numbered.

use tenure_core::{Incarnation, Instant, NodeId};

use serde::Serialize;

use super::office::{News, Office};
use super::{Elects, Pace};
use crate::sim::{Claim, Here, Input, Payload, Process};

/// What members say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Are you there? I would lead.
    Election,
    /// I am, and I am better: leave it to me.
    Answer,
    /// I lead.
    Coordinator,
}

impl Message {
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
    office: Office,
    state: State,
    tells: Tells,
}

/// Whom the winner tells. Textbooks differ.
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
        pace: Pace,
        life: u64,
        here: &mut Here<'_>,
    ) -> Self {
        let mut member = Self {
            office: Office::new(me, members, pace, Incarnation(life)),
            state: State::Settled,
            tells: Tells::All,
        };
        member.campaign(here);
        member
    }

    /// A member that has a leader, and asks nobody whether it is there.
    pub(crate) fn settled(
        me: NodeId,
        members: Vec<NodeId>,
        pace: Pace,
        leader: NodeId,
        here: &mut Here<'_>,
    ) -> Self {
        let mut office = Office::new(me, members, pace, Incarnation(1));
        office.follow(here, Some(leader));
        Self {
            office,
            state: State::Settled,
            tells: Tells::Worse,
        }
    }

    fn campaign(&mut self, here: &mut Here<'_>) {
        self.forget_leader(here);
        let better = self.office.better();
        if better.is_empty() {
            self.win(here);
            return;
        }
        for node in better.into_iter().rev() {
            here.send(node, Payload::Textbook(Message::Election));
        }
        let until = here.sent() + self.office.pace.timeout;
        self.state = State::Asking { until };
    }

    fn forget_leader(&mut self, here: &mut Here<'_>) {
        if let Some(leader) = self.office.leader() {
            self.office.unwatch(here, leader);
        }
        self.office.follow(here, None);
    }

    fn win(&mut self, here: &mut Here<'_>) {
        self.state = State::Settled;
        let me = self.office.me;
        self.office.follow(here, Some(me));
        let told = match self.tells {
            Tells::All => self.office.others(),
            Tells::Worse => self.office.worse(),
        };
        for node in told {
            here.send(node, Payload::Textbook(Message::Coordinator));
        }
    }

    fn hear(&mut self, here: &mut Here<'_>, from: NodeId, message: Message) {
        match message {
            Message::Election => {
                here.send(from, Payload::Textbook(Message::Answer));
                if self.state == State::Settled {
                    self.campaign(here);
                }
            }
            Message::Answer => {
                if matches!(self.state, State::Asking { .. }) {
                    // The better ones may have to ask each other, one after the other.
                    let rounds = self.office.better().len() as u32 + 1;
                    let until = here.now + self.office.pace.timeout * rounds;
                    self.state = State::Waiting { until };
                }
            }
            Message::Coordinator => {
                self.forget_leader(here);
                self.state = State::Settled;
                self.office.follow(here, Some(from));
                if self.tells == Tells::All {
                    self.office.watch(here, from);
                }
            }
        }
    }
}

impl Process for Textbook {
    fn handle(&mut self, here: &mut Here<'_>, input: Input) {
        if let Some((from, Payload::Textbook(message))) = self.office.handle(here, input) {
            self.hear(here, from, message);
        }
        match self.state {
            State::Asking { until } if here.now >= until => self.win(here),
            State::Waiting { until } if here.now >= until => self.campaign(here),
            _ => {}
        }
        while let Some(news) = self.office.news(here) {
            if let News::Suspected(node) = news
                && self.office.leader() == Some(node)
                && self.state == State::Settled
            {
                self.campaign(here);
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        let own = match self.state {
            State::Settled => None,
            State::Asking { until } | State::Waiting { until } => Some(until),
        };
        [own, self.office.due()].into_iter().flatten().min()
    }

    fn claim(&self, _now: Instant) -> Option<Claim> {
        self.office.claim()
    }
}

impl Elects for Textbook {
    fn elect(&mut self, here: &mut Here<'_>) {
        self.campaign(here);
    }
}

//! The algorithm of Chang and Roberts: a ring on which only the best number gets all the way round.
//!
//! It tolerates no failures by itself. Here a member that its detector suspects is passed over, and an
//! election that gets stuck is begun anew after a while.

use serde::Serialize;
use tenure_core::{Incarnation, Instant, NodeId};

use super::office::{News, Office, about};
use super::{Elects, Pace};
use crate::sim::{Claim, Here, Input, Payload, Process};

/// What goes round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The best number so far.
    Election(NodeId),
    /// Who has won.
    Elected(NodeId),
}

impl Message {
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Election(_) => "Election",
            Self::Elected(_) => "Elected",
        }
    }
}

/// A member.
#[derive(Debug)]
pub struct Ring {
    office: Office,
    /// While it takes part in an election: when that is taken for stuck.
    taking_part: Option<Instant>,
}

impl Ring {
    /// A member that starts.
    pub fn start(
        me: NodeId,
        members: Vec<NodeId>,
        pace: Pace,
        life: u64,
        here: &mut Here<'_>,
    ) -> Self {
        let mut ring = Self {
            office: Office::new(me, members, pace, Incarnation(life)),
            taking_part: None,
        };
        for node in ring.office.others() {
            ring.office.watch(here, node);
        }
        ring.campaign(here);
        ring
    }

    /// A member that has a leader, and watches nobody.
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
            taking_part: None,
        }
    }

    fn campaign(&mut self, here: &mut Here<'_>) {
        self.office.follow(here, None);
        self.take_part(here);
        let me = self.office.me;
        self.pass(here, Message::Election(me));
    }

    fn take_part(&mut self, here: &mut Here<'_>) {
        let patience = self.office.pace.timeout * 4;
        self.taking_part = Some(here.now + about(here, patience));
    }

    /// To the next one that is not suspected.
    fn pass(&mut self, here: &mut Here<'_>, message: Message) {
        let members = &self.office.members;
        let after = members.iter().filter(|&&node| node > self.office.me);
        let before = members.iter().filter(|&&node| node < self.office.me);
        let next = after.chain(before).copied();
        match next
            .into_iter()
            .find(|&node| !self.office.is_suspected(node))
        {
            Some(next) => here.send(next, Payload::Ring(message)),
            // Nobody else is there.
            None => self.win(here),
        }
    }

    fn win(&mut self, here: &mut Here<'_>) {
        self.taking_part = None;
        let me = self.office.me;
        self.office.follow(here, Some(me));
    }

    fn hear(&mut self, here: &mut Here<'_>, message: Message) {
        let me = self.office.me;
        match message {
            Message::Election(best) if best < me => {
                self.take_part(here);
                self.pass(here, message);
            }
            Message::Election(best) if best > me => {
                if self.taking_part.is_none() {
                    self.take_part(here);
                    self.pass(here, Message::Election(me));
                }
            }
            Message::Election(_) => {
                self.win(here);
                self.pass(here, Message::Elected(me));
            }
            Message::Elected(leader) if leader != me => {
                self.taking_part = None;
                self.office.follow(here, Some(leader));
                self.pass(here, message);
            }
            Message::Elected(_) => {}
        }
    }
}

impl Process for Ring {
    fn handle(&mut self, here: &mut Here<'_>, input: Input) {
        if let Some((_, Payload::Ring(message))) = self.office.handle(here, input) {
            self.hear(here, message);
        }
        if self.taking_part.is_some_and(|until| here.now >= until) {
            self.campaign(here);
        }
        while let Some(news) = self.office.news(here) {
            if let News::Suspected(node) = news
                && self.office.leader() == Some(node)
            {
                self.campaign(here);
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        [self.taking_part, self.office.due()]
            .into_iter()
            .flatten()
            .min()
    }

    fn claim(&self, _now: Instant) -> Option<Claim> {
        self.office.claim()
    }
}

impl Elects for Ring {
    fn elect(&mut self, here: &mut Here<'_>) {
        self.campaign(here);
    }
}

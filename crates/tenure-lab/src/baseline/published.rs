//! Bully_FD exactly as it was published, with the detector that its papers describe.

use tenure_core::bully::published::{Event, Published};
use tenure_core::bully::{Membership, Verdict};
use tenure_core::{Incarnation, Instant, NodeId, detector};

use super::office::{News, Office, about};
use super::{Elects, Pace};
use crate::sim::{Claim, Effect, Here, Input, Payload, Process, Stable};

/// A member.
#[derive(Debug)]
pub struct PublishedMember {
    office: Office,
    incarnation: Incarnation,
    machine: Published,
    /// The number of its start is on disk before its first message leaves.
    durable: bool,
    held: Vec<(NodeId, Payload)>,
    poll_at: Instant,
}

impl PublishedMember {
    /// A member that recovers.
    pub fn start(
        me: NodeId,
        members: Membership,
        pace: Pace,
        stable: Option<&Stable>,
        here: &mut Here<'_>,
    ) -> Self {
        let starts = match stable {
            Some(Stable::Starts(starts)) => starts + 1,
            _ => 1,
        };
        here.want(Effect::Write(Stable::Starts(starts)));
        let incarnation = Incarnation(starts);
        let all = members.iter().collect();
        let mut member = Self {
            office: Office::new(me, all, pace, incarnation),
            incarnation,
            machine: Published::recovered(me, members, starts),
            durable: false,
            held: Vec::new(),
            poll_at: here.now + about(here, pace.poll),
        };
        member.go_on(here, None);
        member
    }

    /// A member that has a leader, and looks at it after a poll's time.
    pub(crate) fn settled(
        me: NodeId,
        members: Membership,
        pace: Pace,
        leader: NodeId,
        here: &mut Here<'_>,
    ) -> Self {
        let incarnation = Incarnation(1);
        let all = members.iter().collect();
        let mut member = Self {
            office: Office::new(me, all, pace, incarnation),
            incarnation,
            machine: Published::settled(me, members, leader),
            durable: true,
            held: Vec::new(),
            poll_at: here.now + about(here, pace.poll),
        };
        member.go_on(here, None);
        member
    }

    /// One event, and whatever the detector has to say at once.
    fn go_on(&mut self, here: &mut Here<'_>, event: Option<Event>) {
        let mut next = event;
        loop {
            if let Some(event) = next.take() {
                for (to, message) in self.machine.handle(event) {
                    self.send(here, to, Payload::Election(self.incarnation, message));
                }
            }
            self.office.follow(here, self.machine.leader());
            let asked: Vec<NodeId> = self.machine.asked().collect();
            for node in asked {
                if !self.office.is_asked(node) {
                    self.office.ask(here, node);
                }
            }
            match self.office.news(here) {
                Some(News::Answer(node, verdict)) => {
                    let verdict = match verdict {
                        detector::Verdict::Down => Verdict::Down,
                        detector::Verdict::Up | detector::Verdict::NonCandidate => Verdict::Up,
                    };
                    next = Some(Event::Answer(node, verdict));
                }
                Some(News::Suspected(_)) => {}
                None => break,
            }
        }
    }

    fn send(&mut self, here: &mut Here<'_>, to: NodeId, payload: Payload) {
        if self.durable {
            here.send(to, payload);
        } else {
            self.held.push((to, payload));
        }
    }
}

impl Process for PublishedMember {
    fn handle(&mut self, here: &mut Here<'_>, input: Input) {
        if matches!(input, Input::Written) && !self.durable {
            self.durable = true;
            for (to, payload) in std::mem::take(&mut self.held) {
                here.send(to, payload);
            }
        }
        let event = match self.office.handle(here, input) {
            Some((from, Payload::Election(incarnation, message))) => {
                self.office.heard(here, from, incarnation);
                Some(Event::Message(from, message))
            }
            _ => None,
        };
        self.go_on(here, event);
        if here.now >= self.poll_at {
            let poll = self.office.pace.poll;
            self.poll_at = here.now + about(here, poll);
            self.go_on(here, Some(Event::Poll));
        }
    }

    fn due(&self) -> Option<Instant> {
        let due = self.office.due();
        Some(due.map_or(self.poll_at, |due| due.min(self.poll_at)))
    }

    fn claim(&self, _now: Instant) -> Option<Claim> {
        self.office.claim()
    }
}

impl Elects for PublishedMember {
    /// It has asked about its leader, and the answer is here.
    fn elect(&mut self, here: &mut Here<'_>) {
        if let Some(leader) = self.machine.leader() {
            self.machine.handle(Event::Poll);
            self.go_on(here, Some(Event::Answer(leader, Verdict::Down)));
        }
    }

    fn ask_about(&mut self, here: &mut Here<'_>, nodes: &[NodeId]) {
        for &node in nodes {
            self.office.ask(here, node);
        }
        self.go_on(here, None);
    }
}

//! Bully_FD as it was published: figure 1, with its misprints resolved and its errors kept.
//!
//! It is here to be checked against: the tests show what is wrong with it, and the lab may run it
//! beside the repaired machine. Nobody should elect anything with it.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{ElectionId, Membership, NodeId, PeerMessage};
use crate::Epoch;
use crate::detector::Verdict;

/// A node of the published algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Published {
    me: NodeId,
    members: Membership,
    incarnation: u64,
    status: Status,
    election: ElectionId,
    leader: NodeId,
    down: BTreeSet<NodeId>,
    acks: BTreeSet<NodeId>,
    down_worse: BTreeSet<NodeId>,
    /// Whom the detector was asked about: it answers each question once.
    asked: BTreeSet<NodeId>,
    to_send: Vec<(NodeId, PeerMessage)>,
}

/// The papers' states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// There is a leader.
    Norm,
    /// Are the better ones down?
    Elec1,
    /// The worse ones are to wait.
    Elec2,
    /// For whoever has halted it.
    Wait,
}

/// What may come into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A member says something.
    Message(NodeId, PeerMessage),
    /// The detector's answer, once for each question.
    Answer(NodeId, Verdict),
    /// The timers P1, P2 and P3: ask about the leader or the organiser, or ask `Norm?`.
    Poll,
}

impl Published {
    /// A node that recovers: it begins an election.
    #[must_use]
    pub fn recovered(me: NodeId, members: Membership, incarnation: u64) -> Self {
        let election = ElectionId {
            organiser: me,
            incarnation,
            number: 0,
        };
        let mut node = Self {
            me,
            members,
            incarnation,
            status: Status::Norm,
            election,
            leader: me,
            down: BTreeSet::new(),
            acks: BTreeSet::new(),
            down_worse: BTreeSet::new(),
            asked: BTreeSet::new(),
            to_send: Vec::new(),
        };
        node.stage_1();
        node
    }

    /// A node in an election that was won by `leader` long ago.
    #[must_use]
    pub fn settled(me: NodeId, members: Membership, leader: NodeId) -> Self {
        let mut node = Self::recovered(me, members, 0);
        node.status = Status::Norm;
        node.leader = leader;
        node.election.organiser = leader;
        node.asked.clear();
        node
    }

    /// Its state.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Whom it follows; itself if it leads.
    #[must_use]
    pub fn leader(&self) -> Option<NodeId> {
        (self.status == Status::Norm).then_some(self.leader)
    }

    /// Its election.
    #[must_use]
    pub const fn election(&self) -> ElectionId {
        self.election
    }

    /// Whom the detector is to answer about.
    pub fn asked(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.asked.iter().copied()
    }

    /// Something happens; what is to be sent comes back.
    pub fn handle(&mut self, event: Event) -> Vec<(NodeId, PeerMessage)> {
        match event {
            Event::Message(from, message) => self.hear(from, message),
            Event::Answer(node, verdict) => {
                if self.asked.remove(&node) {
                    self.answered(node, verdict);
                }
            }
            Event::Poll => self.poll(),
        }
        core::mem::take(&mut self.to_send)
    }

    /// The figure never increments the number of an election.
    fn stage_1(&mut self) {
        self.status = Status::Elec1;
        self.down.clear();
        self.asked.clear();
        self.election = ElectionId {
            organiser: self.me,
            incarnation: self.incarnation,
            number: 0,
        };
        self.asked.extend(self.members.better(self.me));
        if self.asked.is_empty() {
            self.stage_2();
        }
    }

    /// Everybody at once, each asked about once; and nothing wins but an `Ack`.
    fn stage_2(&mut self) {
        self.status = Status::Elec2;
        self.acks.clear();
        self.down_worse.clear();
        self.asked.clear();
        self.asked.extend(self.members.worse(self.me));
    }

    fn answered(&mut self, node: NodeId, verdict: Verdict) {
        let worse = self.members.is_better(self.me, node);
        if verdict == Verdict::Down {
            if worse {
                self.down_worse.insert(node);
                return;
            }
            self.down.insert(node);
            let lost_leader = self.status == Status::Norm && self.leader == node;
            let lost_organiser = self.status == Status::Wait && self.election.organiser == node;
            if lost_leader || lost_organiser {
                self.stage_1();
            } else if self.status == Status::Elec1 {
                let down = |better| self.down.contains(&better);
                if self.members.better(self.me).all(down) {
                    self.stage_2();
                }
            }
        } else if worse && self.status == Status::Elec2 {
            let election = self.election;
            let preempt = true;
            self.to_send
                .push((node, PeerMessage::Halt { election, preempt }));
        }
    }

    fn poll(&mut self) {
        match self.status {
            Status::Norm if self.leader == self.me => {
                let (election, epoch) = (self.election, NO_EPOCH);
                for worse in self.members.worse(self.me) {
                    self.to_send
                        .push((worse, PeerMessage::Norm { election, epoch }));
                }
            }
            Status::Norm => {
                self.asked.insert(self.leader);
            }
            Status::Wait => {
                self.asked.insert(self.election.organiser);
            }
            Status::Elec1 | Status::Elec2 => {}
        }
    }

    fn hear(&mut self, from: NodeId, message: PeerMessage) {
        match message {
            // Always obeyed, whomever it had obeyed before.
            PeerMessage::Halt { election, .. } => {
                self.down.remove(&from);
                self.election = election;
                self.status = Status::Wait;
                self.asked.clear();
                let highest = None;
                self.to_send
                    .push((from, PeerMessage::Ack { election, highest }));
            }
            // Of whichever election.
            PeerMessage::Ack { election, .. } => {
                self.acks.insert(from);
                let mut worse = self.members.worse(self.me);
                let done = |worse| self.acks.contains(&worse) || self.down_worse.contains(&worse);
                if self.status == Status::Elec2 && worse.all(done) {
                    self.leader = self.me;
                    self.status = Status::Norm;
                    self.asked.clear();
                    let epoch = NO_EPOCH;
                    let ldr = PeerMessage::Ldr { election, epoch };
                    self.to_send.extend(self.acks.iter().map(|&ack| (ack, ldr)));
                }
            }
            PeerMessage::Ldr { election, .. } => {
                if self.status == Status::Wait && election == self.election {
                    self.leader = from;
                    self.status = Status::Norm;
                    self.asked.clear();
                }
            }
            PeerMessage::Norm { election, .. } => {
                if self.status != Status::Norm {
                    self.to_send.push((from, PeerMessage::NotNorm { election }));
                }
            }
            PeerMessage::NotNorm { election } => {
                let leads = self.status == Status::Norm && self.leader == self.me;
                if leads && election == self.election {
                    self.stage_1();
                }
            }
            PeerMessage::Rej { .. } | PeerMessage::Stale { .. } | PeerMessage::Quorum(_) => {}
        }
    }
}

/// The published algorithm numbers no terms.
const NO_EPOCH: Epoch = match Epoch::new(0) {
    Some(epoch) => epoch,
    None => unreachable!(),
};

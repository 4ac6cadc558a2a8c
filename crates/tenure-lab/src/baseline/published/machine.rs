//! Bully_FD as published: figure 1, with its misprints corrected and its errors kept.
//!
//! The tests show its errors, and the comparison includes it beside the repaired algorithm. Do not
//! use it for an election.

use std::collections::BTreeSet;

use serde::Serialize;
use tenure_core::NodeId;
use tenure_core::bully::{ElectionId, Membership};
use tenure_core::detector::Verdict;
use tenure_sim::contestant::json_size;
use tenure_sim::sim::SimMessage;

/// A node of the published algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Published {
    me: NodeId,
    members: Membership,
    incarnation: u64,
    status: PublishedStatus,
    election: ElectionId,
    leader: NodeId,
    down: BTreeSet<NodeId>,
    acks: BTreeSet<NodeId>,
    down_worse: BTreeSet<NodeId>,
    /// The nodes about which the detector was asked. It answers each question once.
    asked: BTreeSet<NodeId>,
    to_send: Vec<(NodeId, PublishedMessage)>,
}

/// The states of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PublishedStatus {
    /// The node has a leader.
    Norm,
    /// The node asks whether the better nodes are down.
    Elec1,
    /// The node halts the worse nodes.
    Elec2,
    /// The node waits for the node that has halted it.
    Wait,
}

/// The messages of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PublishedMessage {
    /// The receiver must wait for the sender, which organises this election.
    Halt {
        /// The election.
        election: ElectionId,
    },
    /// The answer to `Halt`: the sender waits.
    Ack {
        /// The election.
        election: ElectionId,
    },
    /// The sender has won.
    Ldr {
        /// The election.
        election: ElectionId,
    },
    /// The leader's question whether the receiver follows it: `Norm?`.
    Norm {
        /// The election by which the sender leads.
        election: ElectionId,
    },
    /// The answer to `Norm?` of a node that does not follow the sender.
    NotNorm {
        /// The election of the question.
        election: ElectionId,
    },
}

/// An input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishedInput {
    /// A message from this node.
    Message(NodeId, PublishedMessage),
    /// The detector's answer, once for each question.
    Answer(NodeId, Verdict),
    /// One of the timers P1, P2 and P3: ask about the leader or the organiser, or send `Norm?`.
    Poll,
}

impl SimMessage for PublishedMessage {
    fn kind(&self) -> &'static str {
        match self {
            Self::Halt { .. } => "Halt",
            Self::Ack { .. } => "Ack",
            Self::Ldr { .. } => "Ldr",
            Self::Norm { .. } => "Norm?",
            Self::NotNorm { .. } => "NotNorm",
        }
    }

    fn bytes(&self) -> u64 {
        json_size(self)
    }
}

impl Published {
    /// Creates a node that recovers and begins an election.
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
            status: PublishedStatus::Norm,
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

    /// Creates a node that has followed `leader` for a long time.
    #[must_use]
    pub fn settled(me: NodeId, members: Membership, leader: NodeId) -> Self {
        let mut node = Self::recovered(me, members, 0);
        node.status = PublishedStatus::Norm;
        node.leader = leader;
        node.election.organiser = leader;
        node.asked.clear();
        node
    }

    /// Returns the state of the node.
    #[must_use]
    pub const fn status(&self) -> PublishedStatus {
        self.status
    }

    /// Returns the leader that the node follows, or the node itself if it leads.
    #[must_use]
    pub fn leader(&self) -> Option<NodeId> {
        (self.status == PublishedStatus::Norm).then_some(self.leader)
    }

    /// Returns the node's election.
    #[must_use]
    pub const fn election(&self) -> ElectionId {
        self.election
    }

    /// Returns the nodes about which the detector must answer.
    pub fn asked(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.asked.iter().copied()
    }

    /// Handles an input and returns the messages to send.
    pub fn handle(&mut self, input: PublishedInput) -> Vec<(NodeId, PublishedMessage)> {
        match input {
            PublishedInput::Message(from, message) => self.handle_message(from, message),
            PublishedInput::Answer(node, verdict) => {
                if self.asked.remove(&node) {
                    self.handle_answer(node, verdict);
                }
            }
            PublishedInput::Poll => self.poll(),
        }
        std::mem::take(&mut self.to_send)
    }

    /// Begins stage 1. The published figure never increments the number of an election.
    fn stage_1(&mut self) {
        self.status = PublishedStatus::Elec1;
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

    /// The published algorithm halts all worse nodes at once, asks the detector about each of them
    /// once, and can win the election only on an `Ack`.
    fn stage_2(&mut self) {
        self.status = PublishedStatus::Elec2;
        self.acks.clear();
        self.down_worse.clear();
        self.asked.clear();
        self.asked.extend(self.members.worse(self.me));
    }

    fn handle_answer(&mut self, node: NodeId, verdict: Verdict) {
        let worse = self.members.is_better(self.me, node);
        if verdict == Verdict::Down {
            if worse {
                self.down_worse.insert(node);
                return;
            }
            self.down.insert(node);
            let lost_leader = self.status == PublishedStatus::Norm && self.leader == node;
            let lost_organiser =
                self.status == PublishedStatus::Wait && self.election.organiser == node;
            if lost_leader || lost_organiser {
                self.stage_1();
            } else if self.status == PublishedStatus::Elec1 {
                let down = |better| self.down.contains(&better);
                if self.members.better(self.me).all(down) {
                    self.stage_2();
                }
            }
        } else if worse && self.status == PublishedStatus::Elec2 {
            let election = self.election;
            self.to_send
                .push((node, PublishedMessage::Halt { election }));
        }
    }

    fn poll(&mut self) {
        match self.status {
            PublishedStatus::Norm if self.leader == self.me => {
                let election = self.election;
                for worse in self.members.worse(self.me) {
                    self.to_send
                        .push((worse, PublishedMessage::Norm { election }));
                }
            }
            PublishedStatus::Norm => {
                self.asked.insert(self.leader);
            }
            PublishedStatus::Wait => {
                self.asked.insert(self.election.organiser);
            }
            PublishedStatus::Elec1 | PublishedStatus::Elec2 => {}
        }
    }

    fn handle_message(&mut self, from: NodeId, message: PublishedMessage) {
        match message {
            // A published node always accepts, even if it has accepted another organiser before.
            PublishedMessage::Halt { election } => {
                self.down.remove(&from);
                self.election = election;
                self.status = PublishedStatus::Wait;
                self.asked.clear();
                self.to_send
                    .push((from, PublishedMessage::Ack { election }));
            }
            // The published check accepts an `Ack` of any election.
            PublishedMessage::Ack { election } => {
                self.acks.insert(from);
                let mut worse = self.members.worse(self.me);
                let done = |worse| self.acks.contains(&worse) || self.down_worse.contains(&worse);
                if self.status == PublishedStatus::Elec2 && worse.all(done) {
                    self.leader = self.me;
                    self.status = PublishedStatus::Norm;
                    self.asked.clear();
                    let ldr = PublishedMessage::Ldr { election };
                    self.to_send.extend(self.acks.iter().map(|&ack| (ack, ldr)));
                }
            }
            PublishedMessage::Ldr { election } => {
                if self.status == PublishedStatus::Wait && election == self.election {
                    self.leader = from;
                    self.status = PublishedStatus::Norm;
                    self.asked.clear();
                }
            }
            PublishedMessage::Norm { election } => {
                if self.status != PublishedStatus::Norm {
                    self.to_send
                        .push((from, PublishedMessage::NotNorm { election }));
                }
            }
            PublishedMessage::NotNorm { election } => {
                let leads = self.status == PublishedStatus::Norm && self.leader == self.me;
                if leads && election == self.election {
                    self.stage_1();
                }
            }
        }
    }
}

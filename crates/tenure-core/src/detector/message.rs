//! What goes into a detector and what comes out.

use alloc::collections::BTreeSet;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Incarnation, Instant, NodeId};

/// Who takes part: a node, its start, and the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    me: NodeId,
    incarnation: Incarnation,
    peers: BTreeSet<NodeId>,
}

impl Group {
    /// The group with these members, seen from the node `me` in this start of it. Whether `me` is
    /// among the members makes no difference.
    #[must_use]
    pub fn new(
        me: NodeId,
        incarnation: Incarnation,
        members: impl IntoIterator<Item = NodeId>,
    ) -> Self {
        let peers = members.into_iter().filter(|node| *node != me).collect();
        Self {
            me,
            incarnation,
            peers,
        }
    }

    /// The node itself.
    #[must_use]
    pub const fn me(&self) -> NodeId {
        self.me
    }

    /// Which start of it this is.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The other nodes, in the order of their ids.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.peers.iter().copied()
    }
}

/// What detectors say to each other. The envelope tells who says it, in which incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DetectorMessage {
    /// "Are you alive?"
    Ping {
        /// Comes back with the answer.
        round: u64,
    },
    /// "I am", the answer to a ping.
    Pong {
        /// Which ping it answers.
        round: u64,
        /// Whether the sender stands for election.
        candidacy: Candidacy,
    },
    /// "Tell me that you are alive, at this interval and for so long."
    Subscribe {
        /// How often.
        interval: Duration,
        /// After that the subscription ends, unless it is renewed: the subscriber may have died.
        lifetime: Duration,
    },
    /// "No longer."
    Unsubscribe,
    /// "I'm alive."
    Heartbeat {
        /// How many intervals the sender's clock has counted: heartbeat `tick` is due at `tick`
        /// intervals after that clock's origin.
        tick: u64,
    },
    /// "I am back": whoever has the sender on a down list takes it off.
    Recovered,
    /// The answer to that.
    RecoveredAck {
        /// The incarnation that is known to be back.
        incarnation: Incarnation,
    },
}

/// Whether a node that runs stands for election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Candidacy {
    /// It does.
    #[default]
    Candidate,
    /// It only follows and votes, for good or for now: nobody should wait for it to lead.
    NonCandidate,
}

/// What a detector is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectorInput {
    /// Is the node up? The answer is an [`Output::Answer`] with the same number.
    Ask {
        /// About whom.
        node: NodeId,
        /// The number to hand back, for instance the round of an election.
        ask: u64,
    },
    /// Say from now on when the node is suspected and when it is trusted. It is trusted at first.
    Watch(NodeId),
    /// No longer.
    Unwatch(NodeId),
    /// A detector's message has come.
    Message {
        /// From whom.
        from: NodeId,
        /// In which incarnation it was sent.
        incarnation: Incarnation,
        /// What it says.
        message: DetectorMessage,
    },
    /// Any other message has come from the node: it lives.
    Heard {
        /// From whom.
        from: NodeId,
        /// In which incarnation it was sent.
        incarnation: Incarnation,
    },
    /// The node's machine is there and refuses a connection, or has closed the one that the node spoke
    /// on: its process is most likely gone. That is a hint and no verdict, since it may be something in
    /// between that refuses or closes: it makes the detector look at once, if the node is asked about
    /// or under watch.
    Refused(NodeId),
    /// Whether this node stands for election, to be told to those who ask. It does at first.
    Candidacy(Candidacy),
}

/// What a detector wants done or has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectorOutput {
    /// Send this. It may be lost.
    Send {
        /// To whom.
        to: NodeId,
        /// What.
        message: DetectorMessage,
    },
    /// The answer to an [`Input::Ask`].
    Answer {
        /// The number of the question.
        ask: u64,
        /// About whom.
        node: NodeId,
        /// Up or down.
        verdict: Verdict,
        /// The newest incarnation of the node that was heard of.
        incarnation: Option<Incarnation>,
        /// When that was found out: now, or when the node was put on the down list.
        at: Instant,
    },
    /// A node under watch is taken for down.
    Suspected(NodeId),
    /// It is taken for up again.
    Trusted(NodeId),
    /// A node under watch was down in between, seen or unseen: it speaks in a new incarnation.
    Restarted(NodeId, Incarnation),
}

/// What a detector thinks of a node it was asked about: the papers' `UpSig` and `DownSig`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It has been heard since the question, or it is this node itself.
    Up,
    /// The same, and when it last answered a ping it did not stand for election.
    NonCandidate,
    /// It has not answered in time, was found down a moment ago, or is no member.
    Down,
}

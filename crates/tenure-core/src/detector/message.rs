//! The inputs and outputs of a detector.

use alloc::collections::BTreeSet;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Incarnation, Instant, NodeId};

/// A group as one of its nodes sees it: the node, its incarnation, and the other members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The node itself.
    pub me: NodeId,
    /// The node's incarnation.
    pub incarnation: Incarnation,
    peers: BTreeSet<NodeId>,
}

impl Group {
    /// The group with these members for the node `me`, in this incarnation. `members` may or may
    /// not contain `me`.
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

    /// The other nodes, in the order of their ids.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.peers.iter().copied()
    }
}

/// The messages between detectors. The envelope carries the sender and its incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DetectorMessage {
    /// A question: is the receiver alive?
    Ping {
        /// The number that the answer repeats.
        round: u64,
    },
    /// The answer to a ping.
    Pong {
        /// The number of the ping.
        round: u64,
        /// Whether the sender is a candidate.
        candidacy: Candidacy,
    },
    /// A request for heartbeats at this interval, for this lifetime.
    Subscribe {
        /// The interval of the heartbeats.
        interval: Duration,
        /// The subscription ends after this time unless it is renewed, since the subscriber may
        /// have died.
        lifetime: Duration,
    },
    /// The end of a subscription.
    Unsubscribe,
    /// A sign that the sender is alive.
    Heartbeat {
        /// The number of intervals on the sender's clock: heartbeat `tick` is due `tick` intervals
        /// after the origin of that clock.
        tick: u64,
    },
    /// The sender has started again: a receiver removes it from its down list.
    Recovered,
    /// The answer to [`Recovered`](Self::Recovered).
    RecoveredAck {
        /// The incarnation whose recovery the sender has seen.
        incarnation: Incarnation,
    },
}

/// Whether a running node is a candidate in elections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Candidacy {
    /// The node is a candidate.
    #[default]
    Candidate,
    /// The node only follows and votes, permanently or for now: no other node should wait for it to
    /// lead.
    NonCandidate,
}

/// An input of a detector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectorInput {
    /// Asks whether the node is up. The answer is a [`DetectorOutput::Answer`] with the same
    /// number.
    Ask {
        /// The node that the question is about.
        node: NodeId,
        /// The number for the answer, for instance the round of an election.
        ask: u64,
    },
    /// Report from now on when the node becomes suspected or trusted. It is trusted at first.
    Watch(NodeId),
    /// End the watch.
    Unwatch(NodeId),
    /// A detector's message has arrived.
    Message {
        /// The sender.
        from: NodeId,
        /// The sender's incarnation.
        incarnation: Incarnation,
        /// The message.
        message: DetectorMessage,
    },
    /// Any other message of the node has arrived: the node is alive.
    Heard {
        /// The sender.
        from: NodeId,
        /// The sender's incarnation.
        incarnation: Incarnation,
    },
    /// The node's machine has refused a connection, or has closed the connection that the node
    /// used: the node's process is most likely gone. That is a hint and no proof, since something
    /// between the two nodes may refuse or close connections. The detector pings the node at once
    /// if a question about it is open or it is under watch.
    Refused(NodeId),
    /// Whether this node is a candidate: it tells so in its answers to pings. It is one at first.
    Candidacy(Candidacy),
}

/// An output of a detector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectorOutput {
    /// Send a message. It may be lost.
    Send {
        /// The receiver.
        to: NodeId,
        /// The message.
        message: DetectorMessage,
    },
    /// The answer to a [`DetectorInput::Ask`].
    Answer {
        /// The number of the question.
        ask: u64,
        /// The node that the question was about.
        node: NodeId,
        /// Whether the node is up.
        verdict: Verdict,
        /// The newest known incarnation of the node.
        incarnation: Option<Incarnation>,
        /// The time of this finding: now, or the time at which the node was put on the down list.
        at: Instant,
    },
    /// A node under watch is suspected from now on.
    Suspected(NodeId),
    /// A node under watch is trusted again.
    Trusted(NodeId),
    /// A node under watch has restarted: it has sent a message in a new incarnation.
    Restarted(NodeId, Incarnation),
}

/// The answer to a question about a node. The papers call it `UpSig` or `DownSig`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The node has sent a message since the question, or it is this node itself.
    Up,
    /// The same, and when it last answered a ping it did not stand for election.
    NonCandidate,
    /// It has not answered in time, was found down a moment ago, or is no member.
    Down,
}

//! The inputs and outputs of a detector.

use alloc::collections::BTreeSet;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Incarnation, Instant, NodeId};

/// The view that one node has of its group: the node, its incarnation, and the other members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The node itself.
    pub me: NodeId,
    /// The node's incarnation.
    pub incarnation: Incarnation,
    peers: BTreeSet<NodeId>,
}

impl Group {
    /// Creates the group with these members for the node `me` in this incarnation. `members` may
    /// contain `me` or not.
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

    /// Returns the other nodes in the order of their ids.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.peers.iter().copied()
    }
}

/// The messages between detectors. The envelope carries the sender and its incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DetectorMessage {
    /// A question whether the receiver is alive.
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
        /// The lifetime of the subscription unless it is renewed, since the subscriber may have
        /// crashed.
        lifetime: Duration,
    },
    /// The end of a subscription.
    Unsubscribe,
    /// A heartbeat: the sender is alive.
    Heartbeat {
        /// The number of intervals on the sender's clock: heartbeat `tick` is due `tick` intervals
        /// after the origin of that clock.
        tick: u64,
    },
    /// The sender has restarted: receivers remove it from their down lists.
    Recovered,
    /// The answer to [`Recovered`](Self::Recovered).
    RecoveredAck {
        /// The incarnation of the acknowledged recovery.
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
    /// The node only follows and votes, permanently or at present. No other node should wait for it
    /// to lead.
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
    /// Report from now on when the node becomes suspected or trusted. A new watch trusts its node.
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
    /// The node's machine has refused a connection, or has closed a connection to the node, so the
    /// node's process has probably ended. This is a hint and not a proof, since a device between
    /// the two nodes may refuse or close connections. If a question about the node is open or the
    /// node is under watch, the detector pings it at once.
    Refused(NodeId),
    /// Whether this node is a candidate, for its answers to pings. At first it is one.
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
    /// The same, but its last answer to a ping reported that it is not a candidate.
    NonCandidate,
    /// The node has not answered in time, was found down a moment ago, or is not a member.
    Down,
}

//! Messages between members, and the inputs and effects of a member's machine.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::{HardState, NodeId};
use crate::detector::Verdict;
use crate::{Epoch, Incarnation};

/// The name of an election: its organiser, the organiser's incarnation, and a number within that
/// incarnation. Of two elections of one organiser, the greater one is the newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ElectionId {
    /// The member that leads if it wins.
    pub organiser: NodeId,
    /// The organiser's incarnation: how often it had started.
    pub incarnation: u64,
    /// The number of the election since that start.
    pub number: u64,
}

/// A message from one member to another. The transport verifies the sender, and drops messages that
/// are older than [`GroupTimings::message_lifetime`](super::GroupTimings::message_lifetime).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PeerMessage {
    /// The sender organises this election: the receiver must stop its own and wait for the sender.
    Halt {
        /// The election.
        election: ElectionId,
        /// Whether a working leader must step down.
        preempt: bool,
    },
    /// The sender waits for the receiver in this election, or follows it. A member repeats this
    /// message from time to time, to ask whether the election is still valid.
    Ack {
        /// The election.
        election: ElectionId,
        /// The greatest epoch that the sender knows.
        highest: Option<Epoch>,
    },
    /// The sender does not wait for the receiver: it waits for or follows another member.
    Rej {
        /// The refused election.
        election: ElectionId,
        /// The member that the sender waits for or follows.
        holds_to: NodeId,
    },
    /// This election is over for the sender: its organiser has begun another one, or the waiting
    /// member has left it.
    Stale {
        /// The election.
        election: ElectionId,
    },
    /// The sender has won the election.
    Ldr {
        /// The election.
        election: ElectionId,
        /// The epoch of the term.
        epoch: Epoch,
    },
    /// The sender leads, and asks whether the receiver follows it (`Norm?` in the papers).
    Norm {
        /// The election that the sender has won.
        election: ElectionId,
        /// The epoch of the term.
        epoch: Epoch,
    },
    /// A message of an election with a quorum.
    Quorum(QuorumMessage),
}

impl From<QuorumMessage> for PeerMessage {
    fn from(message: QuorumMessage) -> Self {
        Self::Quorum(message)
    }
}

/// A message between members of a group with a quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QuorumMessage {
    /// A question whether the receiver would vote for the sender. The answer binds nobody.
    PreVote {
        /// The number of this pre-vote of the sender.
        round: u64,
    },
    /// The answer to `PreVote`.
    PreVoteReply {
        /// The round of the pre-vote.
        round: u64,
        /// The greatest epoch that the sender knows.
        highest: Option<Epoch>,
        /// How long a promise to another member still binds the sender.
        bound: Option<Duration>,
        /// Whether the sender could lead: it is a candidate, and reached a majority when it last
        /// tried.
        can_lead: bool,
    },
    /// A request to promise this epoch to the sender, and to promise nothing to other members for a
    /// lease duration.
    RequestVote {
        /// The epoch.
        epoch: Epoch,
    },
    /// The promise in answer to `RequestVote`.
    VoteGranted {
        /// The epoch.
        epoch: Epoch,
    },
    /// The refusal of a promise, or of its renewal.
    VoteRejected {
        /// The refused epoch.
        epoch: Epoch,
        /// The greatest epoch that the sender knows.
        highest: Option<Epoch>,
    },
    /// The leader's request to renew the promise.
    Renew {
        /// The epoch of the term.
        epoch: Epoch,
        /// The number of this round of renewals within the term.
        round: u64,
    },
    /// The answer to `Renew`: the receiver's promise is renewed.
    RenewAck {
        /// The epoch of the term.
        epoch: Epoch,
        /// The round of the answered `Renew`.
        round: u64,
    },
    /// The sender no longer leads, or never led, under this epoch: the promise of this epoch is
    /// void.
    Release {
        /// The epoch.
        epoch: Epoch,
        /// The next leader, if the sender chose one.
        to: Option<NodeId>,
    },
    /// A request to hand over to the sender, which is better than the leader and has followed it
    /// for the hold-down.
    TransferRequest {
        /// The epoch of the term that should end.
        epoch: Epoch,
    },
}

/// An input of a member's machine other than time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerInput {
    /// A message from another member.
    Message {
        /// The sender.
        from: NodeId,
        /// The incarnation of the process that has sent it. A promise is for one process.
        incarnation: Incarnation,
        /// The message.
        message: PeerMessage,
    },
    /// The failure detector's answer to [`PeerEffect::Ask`]. There is at most one answer for each
    /// member and round. The answer is `Down` only if no message came from the member since the
    /// question.
    Answer {
        /// The member that was asked about.
        node: NodeId,
        /// The round of the question.
        round: u64,
        /// The answer.
        verdict: Verdict,
    },
    /// The failure detector has begun to suspect a member. This is a hint: the machine asks about
    /// the member at once.
    Suspected(NodeId),
    /// The failure detector trusts a member again.
    Alive(NodeId),
    /// The oldest unacknowledged record of a [`PeerEffect::Persist`] is on disk.
    Persisted,
}

/// An action that the driver must execute for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerEffect {
    /// Send this message. It may be lost; the machine repeats the messages that matter.
    Send {
        /// The receiver.
        to: NodeId,
        /// The message.
        message: PeerMessage,
    },
    /// Write this record to disk, as a whole and durably, and then hand in
    /// [`PeerInput::Persisted`], once for each record and in order. The outputs that depend on the
    /// record follow after that input.
    Persist(HardState),
    /// Ask the failure detector about this member. A newer question replaces an older one.
    Ask {
        /// The member.
        node: NodeId,
        /// The number that the answer repeats.
        round: u64,
    },
    /// Let the failure detector watch this member in addition to those that it already watches, and
    /// hand in [`PeerInput::Suspected`] and [`PeerInput::Alive`]. A follower watches only its
    /// leader, so detection costs one heartbeat for each follower, and followers exchange no
    /// heartbeats with each other.
    Watch(NodeId),
    /// Stop watching this member.
    Unwatch(NodeId),
}

//! Messages between members, and the inputs and effects of a member's machine.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::{HardState, NodeId};
use crate::Epoch;
use crate::detector::Verdict;

/// The name of an election: its organiser, the start of the organiser, and a count within that
/// start. Of two elections of one organiser the greater one is the newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ElectionId {
    /// The member that leads if it wins.
    pub organiser: NodeId,
    /// How often the organiser had started.
    pub incarnation: u64,
    /// Counts the organiser's elections since that start.
    pub number: u64,
}

/// A message from one member to another. The transport verifies its sender, and drops it when it is
/// older than [`GroupTimings::message_lifetime`](super::GroupTimings::message_lifetime).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PeerMessage {
    /// "Stop what you do and wait for me: I organise this election."
    Halt {
        /// The election.
        election: ElectionId,
        /// Whether a leader that works must give way.
        preempt: bool,
    },
    /// "I wait for you, or follow you, by this election." A member sends it again from time to
    /// time, to ask whether that still holds.
    Ack {
        /// The election.
        election: ElectionId,
        /// The greatest epoch that the sender knows of.
        highest: Option<Epoch>,
    },
    /// "I do not wait for you: I wait for or follow another member."
    Rej {
        /// The election that is refused.
        election: ElectionId,
        /// The member that the sender waits for or follows.
        holds_to: NodeId,
    },
    /// "This election is over": its organiser has moved on, or the member that waited has.
    Stale {
        /// The election.
        election: ElectionId,
    },
    /// "I have won."
    Ldr {
        /// The election.
        election: ElectionId,
        /// The number of the term.
        epoch: Epoch,
    },
    /// "I lead; do you follow me?" (`Norm?` in the papers.)
    Norm {
        /// The election by which the sender leads.
        election: ElectionId,
        /// The number of the term.
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
    /// "Would you vote for me?" Binds nobody.
    PreVote {
        /// Counts the sender's pre-votes.
        round: u64,
    },
    /// Answer to `PreVote`.
    PreVoteReply {
        /// The round of the pre-vote.
        round: u64,
        /// The greatest epoch that the sender knows of.
        highest: Option<Epoch>,
        /// For how long a promise to another member still binds the sender.
        bound: Option<Duration>,
        /// Whether the sender could lead: it is a candidate and reaches a majority.
        can_lead: bool,
    },
    /// "Vote for me": promise me this epoch, and promise nothing to others for a lease duration.
    RequestVote {
        /// The epoch.
        epoch: Epoch,
    },
    /// The promise.
    VoteGranted {
        /// The epoch.
        epoch: Epoch,
    },
    /// "I do not promise", or not any more.
    VoteRejected {
        /// The refused epoch.
        epoch: Epoch,
        /// The greatest epoch that the sender knows of.
        highest: Option<Epoch>,
    },
    /// "I lead; renew your promise."
    Renew {
        /// The number of the term.
        epoch: Epoch,
        /// Counts the rounds of a term.
        round: u64,
    },
    /// The renewed promise.
    RenewAck {
        /// The number of the term.
        epoch: Epoch,
        /// The round that it answers.
        round: u64,
    },
    /// "I lead no more, or never did": the promise of this epoch is void.
    Release {
        /// The epoch.
        epoch: Epoch,
        /// The next leader, if the sender chose one.
        to: Option<NodeId>,
    },
    /// "I am better than you and have followed you for the hold-down": hand over to me.
    TransferRequest {
        /// The term that is to end.
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
        /// The message.
        message: PeerMessage,
    },
    /// The failure detector's answer to [`PeerEffect::Ask`]: at most one for each member and round,
    /// and `Down` only if no message came from the member since the question.
    Answer {
        /// The member that was asked about.
        node: NodeId,
        /// The round of the question.
        round: u64,
        /// The answer.
        verdict: Verdict,
    },
    /// The failure detector has begun to suspect a member. A hint: the machine asks about it at
    /// once.
    Suspected(NodeId),
    /// The failure detector trusts a member again.
    Alive(NodeId),
    /// The record of the oldest [`PeerEffect::Persist`] that is not acknowledged yet is on disk.
    Persisted,
}

/// An action that the driver must execute for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerEffect {
    /// Send this. It may be lost; the machine sends again what matters.
    Send {
        /// The receiver.
        to: NodeId,
        /// The message.
        message: PeerMessage,
    },
    /// Write this record to disk, whole and durable, and then hand in [`PeerInput::Persisted`]:
    /// once for each record, in order. Outputs that depend on the record come after that.
    Persist(HardState),
    /// Ask the failure detector about this member; a newer question replaces an older one.
    Ask {
        /// The member.
        node: NodeId,
        /// To be handed back with the answer.
        round: u64,
    },
    /// Let the failure detector watch this member, beside those that it watches already, and hand
    /// in [`PeerInput::Suspected`] and [`PeerInput::Alive`]. A follower watches only the member
    /// that it follows, so detection costs a leader one heartbeat for each follower, and nothing
    /// between followers.
    Watch(NodeId),
    /// Watch this member no longer.
    Unwatch(NodeId),
}

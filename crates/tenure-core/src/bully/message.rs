//! What goes between members, into a node and out of it.

use core::time::Duration;

use super::{HardState, NodeId};
use crate::Epoch;
use crate::detector::Verdict;

/// The name of an election: who organises it, in which of its lives, and the how-manieth of that
/// life. Of two elections of one organiser the greater one is the newer one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(deny_unknown_fields)]
pub struct ElectionId {
    /// Who wants to lead by it.
    pub organiser: NodeId,
    /// How often the organiser had started.
    pub incarnation: u64,
    /// Counts the organiser's elections since that start.
    pub number: u64,
}

/// What one member says to another. Whoever carries it sees to it that it comes from whom it says,
/// and drops it when it is older than [`Timings::message_lifetime`](super::Timings).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PeerMessage {
    /// Stop what you do and wait for me: I organise this election.
    Halt {
        /// The election.
        election: ElectionId,
        /// Whether a leader that works is to give way.
        preempt: bool,
    },
    /// I wait for you, or follow you, by this election. Sent again from time to time, so that it
    /// asks whether that still holds.
    Ack {
        /// The election.
        election: ElectionId,
        /// The greatest epoch that the sender knows of.
        highest: Option<Epoch>,
    },
    /// I do not obey: I hold to this one.
    Rej {
        /// The election that is refused.
        election: ElectionId,
        /// Whom the sender obeys or follows.
        holds_to: NodeId,
    },
    /// This election is no more: its organiser has moved on, or the one who obeyed it has.
    Stale {
        /// The election.
        election: ElectionId,
    },
    /// I have won.
    Ldr {
        /// The election.
        election: ElectionId,
        /// The number of the term.
        epoch: Epoch,
    },
    /// I lead; are you with me? (The papers' `Norm?`.)
    Norm {
        /// The election by which the sender leads.
        election: ElectionId,
        /// The number of the term.
        epoch: Epoch,
    },
    /// What the quorum guard says.
    Quorum(QuorumMessage),
}

/// What members say to each other under the quorum guard.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QuorumMessage {
    /// Would you vote for me? Binds nobody.
    PreVote {
        /// Counts the sender's questions.
        round: u64,
    },
    /// Answer to `PreVote`.
    PreVoteReply {
        /// The question.
        round: u64,
        /// The greatest epoch that the sender knows of.
        highest: Option<Epoch>,
        /// For how long the sender's promise to another one still binds it.
        bound: Option<Duration>,
        /// Whether the sender could lead: it stands for election and reaches a majority.
        can_lead: bool,
    },
    /// Vote for me: promise me this epoch, and for a lease duration nobody else anything.
    RequestVote {
        /// The epoch.
        epoch: Epoch,
    },
    /// Promised.
    VoteGranted {
        /// The epoch.
        epoch: Epoch,
    },
    /// Not promised, or not any more.
    VoteRejected {
        /// The epoch that is refused.
        epoch: Epoch,
        /// The greatest epoch that the sender knows of.
        highest: Option<Epoch>,
    },
    /// I lead; renew your promise.
    Renew {
        /// The number of the term.
        epoch: Epoch,
        /// Counts the rounds of a term.
        round: u64,
    },
    /// Renewed.
    RenewAck {
        /// The number of the term.
        epoch: Epoch,
        /// The round.
        round: u64,
    },
    /// I lead no more, or never did: your promise of this epoch is void.
    Release {
        /// The epoch.
        epoch: Epoch,
        /// Who is to be next, if that matters.
        to: Option<NodeId>,
    },
    /// I am better than you and have followed for the hold-down: hand over to me.
    TransferRequest {
        /// The term that is to end.
        epoch: Epoch,
    },
}

/// What may come into a node beside time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerInput {
    /// A member says something.
    Message {
        /// Who.
        from: NodeId,
        /// What.
        message: PeerMessage,
    },
    /// The failure detector's answer to [`Output::Ask`]: at most one for each member and round, and
    /// `Down` only if nothing was heard from the member since it was asked.
    Answer {
        /// Of whom.
        node: NodeId,
        /// The round of the question.
        round: u64,
        /// The answer.
        verdict: Verdict,
    },
    /// The failure detector has begun to suspect a member. A hint: it is asked about at once.
    Suspected(NodeId),
    /// The failure detector trusts a member again.
    Alive(NodeId),
    /// What the oldest [`Output::Persist`] not yet acknowledged says is on disk.
    Persisted,
}

/// What a node's driver is to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerEffect {
    /// Send this. It may be lost; the node sends again what matters.
    Send {
        /// To whom.
        to: NodeId,
        /// What.
        message: PeerMessage,
    },
    /// Write this record to disk, whole and durable, and say [`Input::Persisted`] then: once for each
    /// of these, in their order. What rests on it comes out after that.
    Persist(HardState),
    /// Ask the failure detector about this member; a newer question replaces an older one.
    Ask {
        /// Whom it is about.
        node: NodeId,
        /// To be told with the answer.
        round: u64,
    },
    /// Have the failure detector watch this member, beside those that it watches already, and tell
    /// [`Input::Suspected`] and [`Input::Alive`]. Only who follows watches, and only whom it follows:
    /// so detection costs a leader one heartbeat for each follower, and nothing between followers.
    Watch(NodeId),
    /// No longer watch this one.
    Unwatch(NodeId),
}

//! What goes between machines.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;
use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::{CandidateId, Epoch, Incarnation, bully, detector};

use crate::baseline::{PublishedMessage, classic, ring, textbook};
use crate::detector::Attendance;

/// One message.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A candidate asks the store.
    StoreRequest {
        /// Which of the candidate's requests it is.
        id: RequestId,
        /// Who asks.
        candidate: CandidateId,
        /// What for.
        request: Request,
    },
    /// The store answers.
    StoreReply {
        /// Which request.
        id: RequestId,
        /// What.
        answer: Answer,
    },
    /// A candidate closes the connection of a request: it has given up waiting for the answer.
    CloseConnection {
        /// Which request.
        id: RequestId,
    },
    /// A member says something to another one about the election.
    Peer(Incarnation, bully::PeerMessage),
    /// The same, about who is alive.
    Detector(Incarnation, detector::DetectorMessage),
    /// A message of Bully_FD as it was published.
    Published(Incarnation, PublishedMessage),
    /// An attendance list.
    Attendance(Incarnation, Attendance),
    /// Garcia-Molina's algorithm.
    Classic(classic::ClassicMessage),
    /// The textbook's.
    Textbook(textbook::TextbookMessage),
    /// That of Chang and Roberts.
    Ring(ring::RingMessage),
    /// A leader's task writes something; with its epoch, if its way of electing has such a thing.
    Write(Option<Epoch>),
}

/// One request of a candidate: in which of its lives, and the how-manieth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// Which start of the candidate.
    pub incarnation: u64,
    /// The keeper's number.
    pub attempt: u64,
}

impl Payload {
    /// What kind of message it is, as one word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        use bully::{PeerMessage, QuorumMessage};
        match self {
            Self::StoreRequest { request, .. } => match request {
                Request::Acquire { .. } => "acquire",
                Request::Renew(_) => "renew",
                Request::Release { .. } => "release",
                Request::HandOver { .. } => "handover",
            },
            Self::StoreReply { .. } => "answer",
            Self::CloseConnection { .. } => "close",
            Self::Peer(_, message) => match message {
                PeerMessage::Halt { .. } => "Halt",
                PeerMessage::Ack { .. } => "Ack",
                PeerMessage::Rej { .. } => "Rej",
                PeerMessage::Stale { .. } => "Stale",
                PeerMessage::Ldr { .. } => "Ldr",
                PeerMessage::Norm { .. } => "Norm?",
                PeerMessage::Quorum(message) => match message {
                    QuorumMessage::PreVote { .. } => "PreVote",
                    QuorumMessage::PreVoteReply { .. } => "PreVoteReply",
                    QuorumMessage::RequestVote { .. } => "Halt",
                    QuorumMessage::VoteGranted { .. } => "Ack",
                    QuorumMessage::VoteRejected { .. } => "Nack",
                    QuorumMessage::Renew { .. } => "Renew",
                    QuorumMessage::RenewAck { .. } => "RenewAck",
                    QuorumMessage::Release { .. } => "Release",
                    QuorumMessage::TransferRequest { .. } => "TransferRequest",
                },
            },
            Self::Detector(_, message) => match message {
                detector::DetectorMessage::Ping { .. } => "ping",
                detector::DetectorMessage::Pong { .. } => "pong",
                detector::DetectorMessage::Subscribe { .. } => "subscribe",
                detector::DetectorMessage::Unsubscribe => "unsubscribe",
                detector::DetectorMessage::Heartbeat { .. } => "heartbeat",
                detector::DetectorMessage::Recovered => "recovered",
                detector::DetectorMessage::RecoveredAck { .. } => "recovered-ack",
            },
            Self::Attendance(..) => "attendance",
            Self::Published(_, message) => message.kind(),
            Self::Classic(message) => message.kind(),
            Self::Textbook(message) => message.kind(),
            Self::Ring(message) => message.kind(),
            Self::Write(_) => "write",
        }
    }

    /// Whether it is about who is alive, and not about who leads.
    #[must_use]
    pub const fn is_detection(&self) -> bool {
        matches!(self, Self::Detector(..) | Self::Attendance(..))
    }

    /// Whether somebody said it. A connection that is closed is no message.
    #[must_use]
    pub const fn is_message(&self) -> bool {
        !matches!(self, Self::CloseConnection { .. })
    }

    /// The size of its body as JSON, without the head of the request or the answer that carries it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::StoreRequest {
                candidate, request, ..
            } => {
                let lease_id = "6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a10";
                match request {
                    Request::Acquire { wait, .. } => size(&json!({
                        "holder": candidate.as_str(),
                        "duration_ms": 15_000,
                        "lease_id": lease_id,
                        "wait_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                        "priority": 100,
                    })),
                    Request::Renew(_) | Request::Release { reason: None, .. } => {
                        size(&json!({ "lease_id": lease_id }))
                    }
                    Request::Release {
                        reason: Some(reason),
                        ..
                    } => size(&json!({ "lease_id": lease_id, "reason": reason.as_str() })),
                    Request::HandOver { to, within, .. } => size(&json!({
                        "lease_id": lease_id,
                        "to": to.as_str(),
                        "within_ms": u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
                    })),
                }
            }
            // A view of the lease, or a problem that says as much.
            Self::StoreReply { .. } => 300,
            Self::CloseConnection { .. } => 0,
            Self::Peer(_, message) => size(message),
            Self::Detector(_, message) => size(message),
            Self::Attendance(_, list) => size(list),
            Self::Published(_, message) => size(message),
            Self::Classic(message) => size(message),
            Self::Textbook(message) => size(message),
            Self::Ring(message) => size(message),
            Self::Write(epoch) => size(epoch),
        }
    }
}

/// Counts what would be written.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn size(message: &impl Serialize) -> u64 {
    let mut counter = Counter(0);
    // Counting can't fail, and all of these have a form in JSON.
    let _ = serde_json::to_writer(&mut counter, message);
    counter.0
}

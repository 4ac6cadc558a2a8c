//! The messages of the product: between candidates, members and stores.

use serde::Serialize;
use serde_json::json;
use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::time::millis;
use tenure_core::{CandidateId, Incarnation, bully, detector};

use super::{HomeAnswer, HomeCall};
use crate::sim::SimMessage;

/// A message.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A request of a candidate to the store.
    StoreRequest {
        /// The id of the request.
        id: RequestId,
        /// The candidate.
        candidate: CandidateId,
        /// The request.
        request: Request,
    },
    /// The answer of the store.
    StoreReply {
        /// The id of the request.
        id: RequestId,
        /// The answer.
        answer: Answer,
    },
    /// A candidate closes the connection of a request, since it no longer waits for the answer.
    CloseConnection {
        /// The request.
        id: RequestId,
    },
    /// The answer of a server that is not active.
    NotActive {
        /// The id of the request.
        id: RequestId,
    },
    /// A call of a server to the home of its log.
    HomeCall {
        /// The id of the call.
        id: RequestId,
        /// The call.
        call: HomeCall,
    },
    /// The answer of the home.
    HomeAnswer {
        /// The id of the call.
        id: RequestId,
        /// The answer.
        answer: HomeAnswer,
    },
    /// A message of a member about the election.
    Peer(Incarnation, bully::PeerMessage),
    /// A message of a failure detector.
    Detector(Incarnation, detector::DetectorMessage),
}

/// The id of a request, of a candidate or of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// The incarnation of the sender.
    pub incarnation: u64,
    /// The number of the attempt. That of a candidate's request comes from the machine.
    pub attempt: u64,
}

impl SimMessage for Payload {
    fn kind(&self) -> &'static str {
        use bully::{PeerMessage, QuorumMessage};
        match self {
            Self::StoreRequest { request, .. } => match request {
                Request::Acquire { .. } => "acquire",
                Request::Renew(_) => "renew",
                Request::Look(_) => "look",
                Request::Resume { .. } => "resume",
                Request::Release { .. } => "release",
                Request::HandOver { .. } => "handover",
            },
            Self::StoreReply { .. } => "answer",
            Self::CloseConnection { .. } => "close",
            Self::NotActive { .. } => "not-active",
            Self::HomeCall { call, .. } => call.kind,
            Self::HomeAnswer { .. } => "home-answer",
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
        }
    }

    fn is_detection(&self) -> bool {
        matches!(self, Self::Detector(..))
    }

    fn is_message(&self) -> bool {
        !matches!(self, Self::CloseConnection { .. })
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::StoreRequest {
                candidate, request, ..
            } => {
                let lease_id = "6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a10";
                match request {
                    Request::Acquire { wait, .. } => json_size(&json!({
                        "holder": candidate.as_str(),
                        "duration_ms": 15_000,
                        "lease_id": lease_id,
                        "wait_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                        "priority": 100,
                    })),
                    Request::Resume {
                        epoch,
                        without_store,
                        ..
                    } => json_size(&json!({
                        "holder": candidate.as_str(),
                        "duration_ms": 15_000,
                        "lease_id": lease_id,
                        "priority": 100,
                        "resume": {
                            "epoch": epoch.get(),
                            "without_store_ms": millis(*without_store),
                        },
                    })),
                    Request::Renew(_)
                    | Request::Look(_)
                    | Request::Release { reason: None, .. } => {
                        json_size(&json!({ "lease_id": lease_id }))
                    }
                    Request::Release {
                        reason: Some(reason),
                        ..
                    } => json_size(&json!({ "lease_id": lease_id, "reason": reason })),
                    Request::HandOver { to, within, .. } => json_size(&json!({
                        "lease_id": lease_id,
                        "to": to.as_str(),
                        "within_ms": u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
                    })),
                }
            }
            // The response is a view of the lease, or a problem of about the same size.
            Self::StoreReply { .. } => 300,
            Self::CloseConnection { .. } => 0,
            Self::NotActive { .. } => 120,
            Self::HomeCall { .. } | Self::HomeAnswer { .. } => 400,
            Self::Peer(_, message) => json_size(message),
            Self::Detector(_, message) => json_size(message),
        }
    }
}

/// Returns the size of a message as JSON.
#[must_use]
pub fn json_size(message: &impl Serialize) -> u64 {
    // All messages can be serialized.
    serde_json::to_vec(message).map_or(0, |json| json.len() as u64)
}

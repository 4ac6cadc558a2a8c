//! The bodies of requests and answers.

use std::collections::BTreeMap;
use std::mem::discriminant;

use serde::{Deserialize, Serialize};
use tenure_core::{Epoch, Incarnation, NodeId, bully, detector};

use super::age::GoodUntil;
use crate::base::metadata::check_metadata;

/// The version of the protocol that this member speaks.
pub(in crate::peers) const VERSION: u32 = 1;

/// The size of the largest body of a request. The longest message, an attendance list of 31
/// members, is shorter than 1 KiB.
pub(in crate::peers) const MAX_REQUEST_BYTES: usize = 16 * 1024;

/// The size of the largest metadata in a request, as JSON. The rest of the longest request is
/// shorter than 1 KiB.
const MAX_METADATA_JSON_BYTES: usize = MAX_REQUEST_BYTES - 1024;

/// The size of the largest body of an answer that is read.
pub(crate) const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// The leader's metadata, which are sent with the renewals of its term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaderMetadata {
    /// The term.
    pub(crate) epoch: Epoch,
    /// The metadata, at most as much as [`LeaderMetadata::check`] accepts.
    pub(crate) metadata: BTreeMap<String, String>,
}

impl LeaderMetadata {
    /// Checks that these metadata may be sent: at most 4 KiB, as in a store, and as JSON, no more
    /// than a request can contain.
    pub(crate) fn check(metadata: &BTreeMap<String, String>) -> Result<(), String> {
        check_metadata(metadata)?;
        let in_json = serde_json::to_vec(metadata).map_or(usize::MAX, |json| json.len());
        if in_json > MAX_METADATA_JSON_BYTES {
            return Err(format!(
                "the metadata have {in_json} bytes as JSON, at most {MAX_METADATA_JSON_BYTES} fit into a \
                 message: too many quotes or control characters"
            ));
        }
        Ok(())
    }
}

/// A message from one member to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Payload {
    /// A message of the election.
    Election(bully::PeerMessage),
    /// A message of the failure detector.
    Detector(detector::DetectorMessage),
    /// The leader's metadata.
    Metadata(LeaderMetadata),
}

impl Payload {
    /// Returns whether both are messages of one kind.
    pub(in crate::peers) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Election(bully::PeerMessage::Quorum(one)),
                Self::Election(bully::PeerMessage::Quorum(other)),
            ) => discriminant(one) == discriminant(other),
            (Self::Election(one), Self::Election(other)) => {
                discriminant(one) == discriminant(other)
            }
            (Self::Detector(one), Self::Detector(other)) => {
                discriminant(one) == discriminant(other)
            }
            (Self::Metadata(_), Self::Metadata(_)) => true,
            _ => false,
        }
    }
}

/// A process of a member. If a member was started twice, or its state was copied, two processes
/// have the same incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::peers) struct Start {
    pub(in crate::peers) incarnation: Incarnation,
    /// A random number that the process draws when it starts.
    pub(in crate::peers) instance: u64,
}

/// The body of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::peers) struct Envelope {
    pub(in crate::peers) version: u32,
    pub(in crate::peers) cluster: String,
    /// The hash of the settings that must be the same for all members.
    pub(in crate::peers) config: String,
    /// The id of the store that the group uses, with a fallback; absent while the sender knows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::peers) store: Option<String>,
    pub(in crate::peers) from: NodeId,
    pub(in crate::peers) incarnation: Incarnation,
    pub(in crate::peers) instance: u64,
    pub(in crate::peers) to: NodeId,
    /// The number of the request. It increases with every request of this process to this receiver.
    pub(in crate::peers) number: u64,
    /// The end of the message's lifetime; null while the receiver's clock is not known.
    pub(in crate::peers) good_until: Option<GoodUntil>,
    /// The start of the receiver that two processes claim, as the sender has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::peers) runs_twice: Option<Incarnation>,
    pub(in crate::peers) payload: Payload,
}

impl Envelope {
    pub(in crate::peers) const fn start(&self) -> Start {
        Start {
            incarnation: self.incarnation,
            instance: self.instance,
        }
    }
}

/// The version alone. Every version of the protocol has it in the same field.
#[derive(Deserialize)]
pub(in crate::peers) struct Versioned {
    pub(in crate::peers) version: u32,
}

/// The member that answers, and its time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::peers) struct Answerer {
    pub(in crate::peers) node: NodeId,
    pub(in crate::peers) incarnation: Incarnation,
    pub(in crate::peers) instance: u64,
    pub(in crate::peers) time_ms: u64,
}

impl Answerer {
    pub(in crate::peers) const fn start(&self) -> Start {
        Start {
            incarnation: self.incarnation,
            instance: self.instance,
        }
    }
}

/// The body of an answer to a request that was accepted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::peers) struct Answer {
    pub(in crate::peers) member: Answerer,
    /// The driver's reply.
    pub(in crate::peers) payloads: Vec<Payload>,
}

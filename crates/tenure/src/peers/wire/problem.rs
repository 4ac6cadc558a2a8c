//! Refusals of requests.

use serde::{Deserialize, Serialize};

use super::envelope::Answerer;

/// A stable name for the reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::peers) enum PeerErrorCode {
    /// The body is not a message of this version.
    Malformed,
    /// The body is not declared as JSON.
    NotJson,
    /// A browser sent the request for a page of another site.
    CrossOrigin,
    /// The MAC is missing, or another key computed it.
    Unauthenticated,
    /// The sender is not a member.
    UnknownMember,
    /// The message is for another group.
    UnknownCluster,
    /// The sender has other settings.
    ConfigDiffers,
    /// The sender uses another store.
    StoreDiffers,
    /// A newer process of the sender has sent a message.
    OlderStart,
    /// Another process has the same number and the same start.
    RunsTwice,
    /// The message is older than its lifetime, or the sender does not know this member's clock yet.
    Late,
    /// The message is not newer than an earlier message.
    Replayed,
    /// The message has too many bytes.
    TooLarge,
    /// The message is for another member.
    Misdirected,
    /// This member passes no messages on.
    RelayOff,
    /// This member has passed the message on before, or a newer one.
    RelayedBefore,
    /// This member has found no path to the receiver.
    NoPath,
    /// The sender uses another version of the protocol.
    VersionDiffers,
    /// This member accepts no messages now.
    Unavailable,
    /// A code of a newer version.
    #[serde(other)]
    Other,
}

impl PeerErrorCode {
    /// Returns the HTTP status, the code as in JSON, and a text that is the same for every
    /// occurrence.
    const fn row(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::Malformed => (400, "malformed", "The message is malformed"),
            Self::NotJson => (415, "not_json", "The body must be JSON"),
            Self::CrossOrigin => (
                403,
                "cross_origin",
                "A page of another site sent the request",
            ),
            Self::Unauthenticated => (401, "unauthenticated", "The MAC is missing or wrong"),
            Self::UnknownMember => (403, "unknown_member", "The sender is not a member"),
            Self::UnknownCluster => (404, "unknown_cluster", "There is no such group here"),
            Self::ConfigDiffers => (409, "config_differs", "The members have different settings"),
            Self::StoreDiffers => (409, "store_differs", "The members use different stores"),
            Self::OlderStart => (409, "older_start", "A newer start of the sender was heard"),
            Self::RunsTwice => (409, "runs_twice", "The sender runs twice"),
            Self::Late => (409, "late", "The message is too old"),
            Self::Replayed => (409, "replayed", "The message was taken before"),
            Self::TooLarge => (413, "too_large", "The message is too large"),
            Self::Misdirected => (421, "misdirected", "The message is for another member"),
            Self::RelayOff => (403, "relay_off", "The member passes no messages on"),
            Self::RelayedBefore => (409, "relayed_before", "The message was passed on before"),
            Self::NoPath => (502, "no_path", "There is no path to the receiver"),
            Self::VersionDiffers => (409, "version_differs", "The member speaks another version"),
            Self::Unavailable => (503, "unavailable", "The member does not take messages now"),
            Self::Other => (503, "other", "Unknown"),
        }
    }

    /// Returns the code as in JSON.
    pub(in crate::peers) const fn as_str(self) -> &'static str {
        self.row().1
    }
}

/// A refusal, as RFC 9457 problem details. The request has changed nothing.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PeerProblem {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    pub(in crate::peers) status: u16,
    pub(crate) detail: String,
    pub(in crate::peers) code: PeerErrorCode,
    /// The member that refuses the request, for callers that have the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::peers) member: Option<Answerer>,
}

impl PeerProblem {
    pub(in crate::peers) fn new(code: PeerErrorCode, detail: impl Into<String>) -> Self {
        let (status, name, title) = code.row();
        Self {
            kind: format!("urn:tenure:problem:{name}"),
            title: title.into(),
            status,
            detail: detail.into(),
            code,
            member: None,
        }
    }
}

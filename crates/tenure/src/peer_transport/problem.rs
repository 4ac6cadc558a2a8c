//! Refusals of requests.

use serde::{Deserialize, Serialize};

use super::envelope::Answerer;

/// A stable name for the reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PeerErrorCode {
    /// The body is no message of this version.
    Malformed,
    /// No MAC, or one by another key.
    Unauthenticated,
    /// The sender is none of the members.
    UnknownMember,
    /// Another group.
    UnknownCluster,
    /// The sender has other settings.
    ConfigDiffers,
    /// A newer process of the sender was heard.
    OlderStart,
    /// Another process has the same number and the same start.
    RunsTwice,
    /// It is older than a message may become, or the sender does not know this clock yet.
    Late,
    /// It is not newer than an earlier message.
    Replayed,
    /// Too many bytes.
    TooLarge,
    /// The message is for another member.
    Misdirected,
    /// Another version of the protocol.
    VersionDiffers,
    /// This member takes no messages now.
    Unavailable,
    /// A code of a newer version.
    #[serde(other)]
    Other,
}

impl PeerErrorCode {
    /// All codes that this version knows.
    pub(super) const ALL: [Self; 13] = [
        Self::Malformed,
        Self::Unauthenticated,
        Self::UnknownMember,
        Self::UnknownCluster,
        Self::ConfigDiffers,
        Self::OlderStart,
        Self::RunsTwice,
        Self::Late,
        Self::Replayed,
        Self::TooLarge,
        Self::Misdirected,
        Self::VersionDiffers,
        Self::Unavailable,
    ];

    /// The HTTP status that goes with it.
    pub(super) const fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::Unauthenticated => 401,
            Self::UnknownMember => 403,
            Self::UnknownCluster => 404,
            Self::ConfigDiffers
            | Self::OlderStart
            | Self::RunsTwice
            | Self::Late
            | Self::Replayed
            | Self::VersionDiffers => 409,
            Self::TooLarge => 413,
            Self::Misdirected => 421,
            Self::Unavailable | Self::Other => 503,
        }
    }

    /// The code as it stands in JSON.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unauthenticated => "unauthenticated",
            Self::UnknownMember => "unknown_member",
            Self::UnknownCluster => "unknown_cluster",
            Self::ConfigDiffers => "config_differs",
            Self::OlderStart => "older_start",
            Self::RunsTwice => "runs_twice",
            Self::Late => "late",
            Self::Replayed => "replayed",
            Self::TooLarge => "too_large",
            Self::Misdirected => "misdirected",
            Self::VersionDiffers => "version_differs",
            Self::Unavailable => "unavailable",
            Self::Other => "other",
        }
    }

    /// A short text that is the same for every occurrence.
    const fn title(self) -> &'static str {
        match self {
            Self::Malformed => "The message is malformed",
            Self::Unauthenticated => "The MAC is missing or wrong",
            Self::UnknownMember => "The sender is not a member",
            Self::UnknownCluster => "There is no such group here",
            Self::ConfigDiffers => "The members have different settings",
            Self::OlderStart => "A newer start of the sender was heard",
            Self::RunsTwice => "The sender runs twice",
            Self::Late => "The message is too old",
            Self::Replayed => "The message was taken before",
            Self::TooLarge => "The message is too large",
            Self::Misdirected => "The message is for another member",
            Self::VersionDiffers => "The member speaks another version",
            Self::Unavailable => "The member does not take messages now",
            Self::Other => "Unknown",
        }
    }
}

/// A refusal. The request has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: PeerErrorCode,
    pub(super) detail: String,
}

impl Refusal {
    pub(super) fn new(code: PeerErrorCode, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { code, detail }
    }
}

/// A refusal on the wire: RFC 9457 problem details.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PeerProblem {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    pub(crate) detail: String,
    pub(super) code: PeerErrorCode,
    /// The member that refuses, for callers that have the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) member: Option<Answerer>,
}

impl PeerProblem {
    pub(super) fn new(refusal: Refusal, member: Option<Answerer>) -> Self {
        let Refusal { code, detail } = refusal;
        Self {
            kind: format!("urn:tenure:problem:{}", code.as_str()),
            title: code.title().into(),
            status: code.status(),
            detail,
            code,
            member,
        }
    }
}

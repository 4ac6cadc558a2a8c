//! Errors as RFC 9457 problem details.

use alloc::format;
use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};

use super::request::MAX_METADATA_BYTES;
use crate::lease::{Rejection, Remaining};
use crate::time::millis;

/// A stable name for what went wrong; scripts and other languages depend on these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Code {
    /// 400: the body is no JSON, or a value has the wrong type, or a part of the request is broken.
    Malformed,
    /// 400: the body or the query has a field that this call does not know.
    UnknownField,
    /// 400: a name or an id has the wrong length or a wrong character.
    InvalidName,
    /// 422: a number is outside of its range; both limits are named.
    OutOfRange,
    /// 413: the body, or a part of it, is larger than the store takes.
    TooLarge,
    /// 415: the body is not declared as JSON.
    NotJson,
    /// 401: no credential.
    Unauthenticated,
    /// 403: the credential does not allow this.
    Forbidden,
    /// 403: a browser sent this for a page of another origin.
    CrossOrigin,
    /// 404: no lease of this name was ever acquired (or it was deleted).
    UnknownLease,
    /// 404: no such path.
    UnknownRoute,
    /// 405: the path exists, for another method.
    MethodNotAllowed,
    /// 408: the request did not arrive in time.
    RequestTimeout,
    /// 409: another lease id holds the lease, or nobody may be granted it yet.
    LeaseHeld,
    /// 409: the lease id is not the one that holds the lease.
    LeaseIdMismatch,
    /// 409: nobody holds the lease.
    LeaseNotHeld,
    /// 409: a break is under way.
    LeaseBreaking,
    /// 409: the lease was broken.
    LeaseBroken,
    /// 409: the lease has expired.
    LeaseExpired,
    /// 409: the lease id belongs to a term that has ended.
    LeaseIdRetired,
    /// 409: the epoch is not the current one.
    StaleEpoch,
    /// 409: no epoch is left for this lease.
    EpochsExhausted,
    /// 429: over a limit of this store; come again later.
    OverLimit,
    /// 500: a fault in the store.
    Internal,
    /// 503: the store is stopping; ask again, or another one.
    Stopping,
    /// 503: the store can't reach or use its engine.
    EngineUnavailable,
    /// 507: the store's disk is full: nothing but renewals and reads.
    DiskFull,
    /// A code of a newer store.
    #[serde(other)]
    Other,
}

impl Code {
    /// The HTTP status that goes with it.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed | Self::UnknownField | Self::InvalidName => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden | Self::CrossOrigin => 403,
            Self::UnknownLease | Self::UnknownRoute => 404,
            Self::MethodNotAllowed => 405,
            Self::RequestTimeout => 408,
            Self::LeaseHeld
            | Self::LeaseIdMismatch
            | Self::LeaseNotHeld
            | Self::LeaseBreaking
            | Self::LeaseBroken
            | Self::LeaseExpired
            | Self::LeaseIdRetired
            | Self::StaleEpoch
            | Self::EpochsExhausted => 409,
            Self::TooLarge => 413,
            Self::NotJson => 415,
            Self::OutOfRange => 422,
            Self::OverLimit => 429,
            Self::Internal | Self::Other => 500,
            Self::Stopping | Self::EngineUnavailable => 503,
            Self::DiskFull => 507,
        }
    }

    /// A short text that is the same for every occurrence.
    const fn title(self) -> &'static str {
        match self {
            Self::Malformed => "The request is malformed",
            Self::UnknownField => "The request has an unknown field",
            Self::InvalidName => "A name or an id is invalid",
            Self::OutOfRange => "A number is out of range",
            Self::TooLarge => "The request is too large",
            Self::NotJson => "The body must be JSON",
            Self::Unauthenticated => "A credential is needed",
            Self::Forbidden => "The credential does not allow this",
            Self::CrossOrigin => "A page of another origin asks",
            Self::UnknownLease => "There is no such lease",
            Self::UnknownRoute => "There is no such path",
            Self::MethodNotAllowed => "The path does not take this method",
            Self::RequestTimeout => "The request did not arrive in time",
            Self::LeaseHeld => "The lease can't be granted now",
            Self::LeaseIdMismatch => "The lease id does not hold the lease",
            Self::LeaseNotHeld => "Nobody holds the lease",
            Self::LeaseBreaking => "The lease is breaking",
            Self::LeaseBroken => "The lease was broken",
            Self::LeaseExpired => "The lease has expired",
            Self::LeaseIdRetired => "The lease id's term has ended",
            Self::StaleEpoch => "The epoch is stale",
            Self::EpochsExhausted => "The lease has used up its epochs",
            Self::OverLimit => "Over a limit of this store",
            Self::Internal => "A fault in the store",
            Self::Stopping => "The store is stopping",
            Self::EngineUnavailable => "The store's engine is unavailable",
            Self::DiskFull => "The store's disk is full",
            Self::Other => "Unknown",
        }
    }

    /// The code as it stands in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        // The serde names are the contract; this is the same list for places without serde.
        match self {
            Self::Malformed => "malformed",
            Self::UnknownField => "unknown_field",
            Self::InvalidName => "invalid_name",
            Self::OutOfRange => "out_of_range",
            Self::TooLarge => "too_large",
            Self::NotJson => "not_json",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::CrossOrigin => "cross_origin",
            Self::UnknownLease => "unknown_lease",
            Self::UnknownRoute => "unknown_route",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::LeaseHeld => "lease_held",
            Self::LeaseIdMismatch => "lease_id_mismatch",
            Self::LeaseNotHeld => "lease_not_held",
            Self::LeaseBreaking => "lease_breaking",
            Self::LeaseBroken => "lease_broken",
            Self::LeaseExpired => "lease_expired",
            Self::LeaseIdRetired => "lease_id_retired",
            Self::StaleEpoch => "stale_epoch",
            Self::EpochsExhausted => "epochs_exhausted",
            Self::OverLimit => "over_limit",
            Self::Internal => "internal",
            Self::Stopping => "stopping",
            Self::EngineUnavailable => "engine_unavailable",
            Self::DiskFull => "disk_full",
            Self::Other => "other",
        }
    }

    /// Whether the same request may succeed later, all by itself.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        self.status() >= 500 || matches!(self, Self::OverLimit | Self::RequestTimeout)
    }
}

/// An error answer: RFC 9457 problem details with a stable `code`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A URI that names the kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// A short text, the same for every occurrence.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened this time, with the values.
    pub detail: String,
    /// The stable name.
    pub code: Code,
    /// With `lease_held`: who holds the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// With `lease_held`: the holder's epoch. With `stale_epoch`: the greatest one seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// How long the lease, the break, the lock delay or the reservation lasts yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
}

impl Problem {
    /// The problem `code`, with what happened this time.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:tenure:problem:{}", code.as_str()),
            title: code.title().into(),
            status: code.status(),
            detail: detail.into(),
            code,
            holder: None,
            epoch: None,
            remaining_ms: None,
        }
    }

    pub(super) fn metadata_too_large(bytes: usize) -> Self {
        Self::new(
            Code::TooLarge,
            format!(
                "metadata has {bytes} bytes of keys and values, at most {MAX_METADATA_BYTES} are taken"
            ),
        )
    }
}

impl From<&Rejection> for Problem {
    fn from(rejection: &Rejection) -> Self {
        let detail = rejection.to_string();
        let remaining = |code, remaining| Self {
            remaining_ms: Some(millis(remaining)),
            ..Self::new(code, detail.clone())
        };
        match rejection {
            Rejection::Held {
                holder,
                epoch,
                remaining,
            } => Self {
                holder: Some(holder.to_string()),
                epoch: Some(epoch.get()),
                remaining_ms: match remaining {
                    Remaining::Time(time) => Some(millis(*time)),
                    Remaining::Forever => None,
                },
                ..Self::new(Code::LeaseHeld, detail)
            },
            Rejection::LockDelay { remaining: time }
            | Rejection::Reserved {
                remaining: time, ..
            } => remaining(Code::LeaseHeld, *time),
            Rejection::Breaking { remaining: time } => remaining(Code::LeaseBreaking, *time),
            Rejection::Broken { remaining: time } => remaining(Code::LeaseBroken, *time),
            Rejection::IdMismatch => Self::new(Code::LeaseIdMismatch, detail),
            Rejection::NotHeld => Self::new(Code::LeaseNotHeld, detail),
            Rejection::Expired => Self::new(Code::LeaseExpired, detail),
            Rejection::IdRetired => Self::new(Code::LeaseIdRetired, detail),
            Rejection::EpochTooFarAhead { .. } => Self::new(Code::OutOfRange, detail),
            Rejection::EpochsExhausted => Self::new(Code::EpochsExhausted, detail),
        }
    }
}

//! Errors as RFC 9457 problem details.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};

use crate::lease::Rejection;
use crate::time::millis;
#[cfg(feature = "schema")]
use crate::{CandidateId, Epoch};

/// Declares the codes, each with its status, its name in JSON, and a title.
macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident $status:literal $name:literal $title:literal;)*) => {
        /// A stable name for a kind of error. Scripts and programs in other languages depend on
        /// these names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Code {
            $(
                $(#[$doc])*
                #[doc = concat!("Status ", $status, ".")]
                #[serde(rename = $name)]
                $code,
            )*
            /// A code of a newer store, which this version does not know.
            #[serde(other, rename = "other")]
            Other,
        }

        impl Code {
            /// All codes that this version knows.
            pub const ALL: &'static [Self] = &[$(Self::$code,)*];

            /// Returns the HTTP status of this code.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self {
                    $(Self::$code => $status,)*
                    Self::Other => 500,
                }
            }

            /// Returns a short text that is the same for every occurrence.
            const fn title(self) -> &'static str {
                match self {
                    $(Self::$code => $title,)*
                    Self::Other => "Unknown",
                }
            }

            /// Returns the code as in JSON.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)*
                    Self::Other => "other",
                }
            }
        }
    };
}

codes! {
    /// The body is not JSON, a value has the wrong type, or a part of the request is invalid.
    Malformed 400 "malformed" "The request is malformed";
    /// The body or the query has a field that this route does not know.
    UnknownField 400 "unknown_field" "The request has an unknown field";
    /// A name or an id has the wrong length or a wrong character.
    InvalidName 400 "invalid_name" "A name or an id is invalid";
    /// A number is outside of its range; the detail names both limits.
    OutOfRange 422 "out_of_range" "A number is out of range";
    /// The body, or a part of it, is larger than the store accepts.
    TooLarge 413 "too_large" "The request is too large";
    /// The body is not declared as JSON.
    NotJson 415 "not_json" "The body must be JSON";
    /// The request has no valid credential.
    Unauthenticated 401 "unauthenticated" "A valid credential is needed";
    /// The credential does not permit this request.
    Forbidden 403 "forbidden" "The credential does not allow this";
    /// A browser sent the request for a page of another origin.
    CrossOrigin 403 "cross_origin" "A page of another origin sent the request";
    /// No lease of this name was ever acquired (or it was deleted).
    UnknownLease 404 "unknown_lease" "There is no such lease";
    /// The path does not exist.
    UnknownRoute 404 "unknown_route" "There is no such path";
    /// The path exists, but not for this method.
    MethodNotAllowed 405 "method_not_allowed" "The path does not take this method";
    /// The request did not arrive in time.
    RequestTimeout 408 "request_timeout" "The request did not arrive in time";
    /// Another lease id holds the lease, or the lease is reserved or in its lock delay.
    LeaseHeld 409 "lease_held" "The lease can't be granted now";
    /// The lease id is not the one that holds the lease.
    LeaseIdMismatch 409 "lease_id_mismatch" "The lease id does not hold the lease";
    /// The lease is to be handed over to a candidate that does not wait for it.
    NotWaiting 409 "not_waiting" "The candidate does not wait for the lease";
    /// The lease is not held.
    LeaseNotHeld 409 "lease_not_held" "The lease is not held";
    /// A break is in progress.
    LeaseBreaking 409 "lease_breaking" "The lease is breaking";
    /// The lease was broken.
    LeaseBroken 409 "lease_broken" "The lease was broken";
    /// The lease has expired.
    LeaseExpired 409 "lease_expired" "The lease has expired";
    /// The lease id belongs to a term that has ended.
    LeaseIdRetired 409 "lease_id_retired" "The lease id's term has ended";
    /// The epoch is not the current one.
    StaleEpoch 409 "stale_epoch" "The epoch is stale";
    /// The lease had the epoch in another term, or has had a greater one.
    EpochPassed 409 "epoch_passed" "The lease has passed this epoch";
    /// No epoch is left for this lease.
    EpochsExhausted 409 "epochs_exhausted" "The lease has used up its epochs";
    /// The request exceeds a limit of this store. Try again later.
    OverLimit 429 "over_limit" "The request exceeds a limit of this store";
    /// A bug in the store.
    Internal 500 "internal" "A bug in the store";
    /// The store is stopping. Try again, or try another one.
    Stopping 503 "stopping" "The store is stopping";
    /// The home of the store failed.
    HomeUnavailable 503 "home_unavailable" "The store's home is unavailable";
    /// This server of a cluster is a standby: another server is active.
    NotActive 503 "not_active" "This server of the cluster is not active";
    /// The disk is full: the store accepts renewals and reads only.
    DiskFull 507 "disk_full" "The store's disk is full";
}

impl Code {
    /// Returns whether the same request may succeed later without any other change.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        self.status() >= 500 || matches!(self, Self::OverLimit | Self::RequestTimeout)
    }
}

/// An error response: RFC 9457 problem details with a stable `code`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// A URI that names the kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// A short text, the same for every occurrence.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The details of this occurrence, with the values.
    pub detail: String,
    /// The stable name.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub code: Code,
    /// With `lease_held`: the holder of the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<CandidateId>"))]
    pub holder: Option<String>,
    /// With `lease_held`: the holder's epoch. With `stale_epoch` and `epoch_passed`: the
    /// greatest epoch seen so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Epoch>"))]
    pub epoch: Option<u64>,
    /// The remaining time of the lease, the break, the lock delay or the reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
    /// With `not_active`: the URL of the active server, as the log of the cluster names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<Box<str>>,
}

impl Problem {
    /// Creates the problem `code` with the details of this occurrence.
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
            active: None,
        }
    }
}

impl From<&Rejection> for Problem {
    fn from(rejection: &Rejection) -> Self {
        let (code, remaining) = match rejection {
            Rejection::Held { remaining, .. } => (Code::LeaseHeld, remaining.fixed()),
            Rejection::LockDelay { remaining } | Rejection::Reserved { remaining, .. } => {
                (Code::LeaseHeld, Some(*remaining))
            }
            Rejection::Breaking { remaining } => (Code::LeaseBreaking, Some(*remaining)),
            Rejection::Broken { remaining } => (Code::LeaseBroken, Some(*remaining)),
            Rejection::IdMismatch => (Code::LeaseIdMismatch, None),
            Rejection::NotHeld => (Code::LeaseNotHeld, None),
            Rejection::Expired => (Code::LeaseExpired, None),
            Rejection::IdRetired => (Code::LeaseIdRetired, None),
            Rejection::EpochTooFarAhead { .. } => (Code::OutOfRange, None),
            Rejection::NotWaiting { .. } => (Code::NotWaiting, None),
            Rejection::EpochPassed { .. } => (Code::EpochPassed, None),
            Rejection::EpochsExhausted => (Code::EpochsExhausted, None),
        };
        let mut problem = Self::new(code, rejection.to_string());
        problem.remaining_ms = remaining.map(millis);
        match rejection {
            Rejection::Held { holder, epoch, .. } => {
                problem.holder = Some(holder.to_string());
                problem.epoch = Some(epoch.get());
            }
            Rejection::EpochPassed { last, .. } => problem.epoch = Some(last.get()),
            _ => {}
        }
        problem
    }
}

//! The events of a store, which a client receives as server-sent events.

use alloc::string::String;
use core::fmt;

use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::{Deserialize, Serialize};

use super::LeaseView;
#[cfg(feature = "schema")]
use crate::{CandidateId, Epoch};

/// The kind of an event, which is also the event's name in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// A term began.
    Granted,
    /// The holder renewed the lease, and its duration starts again. Only clients that request
    /// renewals receive this event.
    Renewed,
    /// The holder released the lease, or handed it over.
    Released,
    /// The holder did not renew in time.
    Expired,
    /// A break has begun.
    Breaking,
    /// A break has ended the term.
    Broken,
    /// The holder of a term that ran without the store holds the lease again, under the same epoch
    /// as before. Its lease may have expired meanwhile.
    Resumed,
    /// The term continues under another lease id.
    Changed,
    /// The holder changed its metadata.
    Metadata,
    /// The lease was deleted.
    Deleted,
    /// The store no longer has the earlier events. The client must read the current state.
    Reset,
}

impl EventKind {
    /// Returns the kind with this name; `None` for a kind of a newer store.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::deserialize(StrDeserializer::<ValueError>::new(name)).ok()
    }
}

/// Writes the name of the event.
impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The data of every event except `reset`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LeaseEvent {
    /// The lease right after the event, with the remaining time at that moment and without a lease
    /// id.
    #[serde(flatten)]
    pub view: LeaseView,
    /// With `released`, `expired` and `broken`: the term that ended. The view then has no holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<PastTerm>,
    /// The reason, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl LeaseEvent {
    /// Creates the event of this view, without a term that ended and without a reason.
    #[must_use]
    pub const fn new(view: LeaseView) -> Self {
        Self {
            view,
            term: None,
            reason: None,
        }
    }
}

/// A term that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PastTerm {
    /// The epoch of the term.
    #[cfg_attr(feature = "schema", schemars(with = "Epoch"))]
    pub epoch: u64,
    /// The holder of the lease.
    #[cfg_attr(feature = "schema", schemars(with = "CandidateId"))]
    pub holder: String,
}

impl PastTerm {
    /// Creates the term with this epoch and this holder.
    #[must_use]
    pub fn new(epoch: u64, holder: impl Into<String>) -> Self {
        Self {
            epoch,
            holder: holder.into(),
        }
    }
}

/// The data of a `reset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reset {
    /// The store's revision. The stream contains all events after it.
    pub revision: u64,
}

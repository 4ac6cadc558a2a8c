//! What a store tells those who watch, as server-sent events.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::LeaseView;

/// What happened, which is the name of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// A term began.
    Granted,
    /// The term goes on, its duration counted from then. Told only to those who ask for it.
    Renewed,
    /// The holder gave the lease up, or handed it over.
    Released,
    /// The holder did not renew in time.
    Expired,
    /// A break is under way.
    Breaking,
    /// A break has ended the term.
    Broken,
    /// The term goes on under another lease id.
    Changed,
    /// The holder says something else about itself.
    Metadata,
    /// All about the lease was forgotten.
    Deleted,
    /// What was before is not told: look how it stands now.
    Reset,
}

impl EventKind {
    const ALL: [Self; 10] = [
        Self::Granted,
        Self::Renewed,
        Self::Released,
        Self::Expired,
        Self::Breaking,
        Self::Broken,
        Self::Changed,
        Self::Metadata,
        Self::Deleted,
        Self::Reset,
    ];

    /// The event's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        // The serde names are the contract; this is the same list for places without serde.
        match self {
            Self::Granted => "granted",
            Self::Renewed => "renewed",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Breaking => "breaking",
            Self::Broken => "broken",
            Self::Changed => "changed",
            Self::Metadata => "metadata",
            Self::Deleted => "deleted",
            Self::Reset => "reset",
        }
    }

    /// The kind of this name; `None` for one of a newer store.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// The data of every event but `reset`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseEvent {
    /// The lease as it was right after it, never with a lease id. How long it has left is as of then.
    #[serde(flatten)]
    pub view: LeaseView,
    /// The term that is over, with `released`, `expired` and `broken`: the view has no holder then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<PastTerm>,
    /// Why, if there is a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A term that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastTerm {
    /// Its number.
    pub epoch: u64,
    /// Who held the lease.
    pub holder: String,
}

/// The data of a `reset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reset {
    /// The store's revision: what comes after it is told.
    pub revision: u64,
}

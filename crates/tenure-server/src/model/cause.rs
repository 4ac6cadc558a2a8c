//! The causes of changes.

use tenure_core::lease::{Change, Lapse};
use tenure_core::wire::EventKind;

/// The cause of a change of a lease.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// A request changed it, for this reason if the request gave one.
    Requested(Change, Option<Box<str>>),
    /// The time of the term, or the period of the break, was over.
    Lapsed(Lapse),
    /// A request deleted it.
    Deleted,
}

impl Cause {
    /// Returns the kind of the event that watchers get.
    pub(crate) const fn kind(&self) -> EventKind {
        match self {
            Self::Requested(change, _) => match change {
                Change::Granted(_) => EventKind::Granted,
                Change::Resumed(_) => EventKind::Resumed,
                Change::Released | Change::HandedOver => EventKind::Released,
                Change::Breaking(_) => EventKind::Breaking,
                Change::Broken => EventKind::Broken,
                Change::Changed => EventKind::Changed,
                Change::MetadataSet => EventKind::Metadata,
                // A verification changes nothing, so it never becomes a change or an event.
                Change::Renewed(_) | Change::Verified { .. } => EventKind::Renewed,
            },
            Self::Lapsed(Lapse::Expired) => EventKind::Expired,
            Self::Lapsed(Lapse::Broken) => EventKind::Broken,
            Self::Deleted => EventKind::Deleted,
        }
    }

    /// Returns the reason, if there is one.
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Requested(_, Some(reason)) => Some(reason),
            Self::Requested(Change::HandedOver, None) => Some("handed over"),
            Self::Lapsed(Lapse::Expired) => Some("not renewed in time"),
            Self::Lapsed(Lapse::Broken) => Some("the break's period is over"),
            Self::Requested(_, None) | Self::Deleted => None,
        }
    }
}

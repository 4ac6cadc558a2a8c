//! What happened to a lease, for the log and for those who watch.

use tenure_core::lease::{Change, Lapse};
use tenure_core::wire::EventKind;
use tracing::{debug, info};

use crate::engine::{Content, Write};

/// What happened to a lease.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Somebody asked for it.
    Asked(Change, Option<Box<str>>),
    /// Time did it.
    Lapsed(Lapse),
    /// All about it was forgotten.
    Deleted,
}

impl Event {
    /// Its name, for those who watch.
    pub(crate) const fn kind(&self) -> EventKind {
        match self {
            Self::Asked(change, _) => match change {
                Change::Granted(_) => EventKind::Granted,
                Change::Released | Change::HandedOver => EventKind::Released,
                Change::Breaking(_) => EventKind::Breaking,
                Change::Broken => EventKind::Broken,
                Change::Changed => EventKind::Changed,
                Change::MetadataSet => EventKind::Metadata,
                // A question changes nothing and is no step; nobody is told of it unasked.
                Change::Renewed(_) | Change::Verified { .. } => EventKind::Renewed,
            },
            Self::Lapsed(Lapse::Expired) => EventKind::Expired,
            Self::Lapsed(Lapse::Broken) => EventKind::Broken,
            Self::Deleted => EventKind::Deleted,
        }
    }

    /// Why, if there is a reason.
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Asked(_, Some(reason)) => Some(reason),
            Self::Asked(Change::HandedOver, None) => Some("handed over"),
            Self::Lapsed(Lapse::Expired) => Some("not renewed in time"),
            Self::Lapsed(Lapse::Broken) => Some("the break's period is over"),
            Self::Asked(_, None) | Self::Deleted => None,
        }
    }

    /// Logs it. Lease ids are secrets and stay out.
    pub(crate) fn log(&self, write: &Write) {
        let (namespace, lease) = (write.key.namespace(), write.key.lease());
        let grant = match &write.content {
            Content::Lease(stored) => stored.grant.as_ref(),
            Content::Deleted(_) => None,
        };
        let holder = grant.map_or("", |grant| grant.holder.as_str());
        let epoch = grant.map_or(0, |grant| grant.epoch.get());
        let reason = self.reason().unwrap_or("");
        macro_rules! tell {
            ($level:ident, $what:literal) => {
                $level!(namespace, lease, holder, epoch, reason, $what)
            };
        }
        match self {
            Self::Asked(change, _) => match change {
                Change::Granted(_) => tell!(info, "granted"),
                Change::Released => tell!(info, "released"),
                Change::HandedOver => tell!(info, "handed over"),
                Change::Breaking(_) => tell!(info, "breaking"),
                Change::Broken => tell!(info, "broken"),
                Change::Renewed(_) => tell!(debug, "renewed for another duration"),
                Change::Changed => tell!(debug, "lease id changed"),
                Change::MetadataSet => tell!(debug, "metadata set"),
                Change::Verified { .. } => {}
            },
            Self::Lapsed(Lapse::Expired) => tell!(info, "expired"),
            Self::Lapsed(Lapse::Broken) => tell!(info, "broken"),
            Self::Deleted => info!(namespace, lease, "deleted"),
        }
    }
}

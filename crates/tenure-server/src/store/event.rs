//! What happened to a lease, for the log.

use tenure_core::lease::{Change, Lapse};
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
    /// Logs it. Lease ids are secrets and stay out.
    pub(crate) fn log(&self, write: &Write) {
        let (namespace, lease) = (write.key.namespace(), write.key.lease());
        let grant = match &write.content {
            Content::Lease(stored) => stored.grant.as_ref(),
            Content::Deleted(_) => None,
        };
        let holder = grant.map_or("", |grant| grant.holder.as_str());
        let epoch = grant.map_or(0, |grant| grant.epoch.get());
        macro_rules! tell {
            ($level:ident, $reason:expr, $what:literal) => {
                $level!(namespace, lease, holder, epoch, reason = $reason, $what)
            };
        }
        match self {
            Self::Asked(change, reason) => {
                let reason = reason.as_deref().unwrap_or("");
                match change {
                    Change::Granted(_) => tell!(info, reason, "granted"),
                    Change::Released => tell!(info, reason, "released"),
                    Change::HandedOver => tell!(info, reason, "handed over"),
                    Change::Breaking(_) => tell!(info, reason, "breaking"),
                    Change::Broken => tell!(info, reason, "broken"),
                    Change::Renewed(_) => tell!(debug, reason, "renewed for another duration"),
                    Change::Changed => tell!(debug, reason, "lease id changed"),
                    Change::MetadataSet => tell!(debug, reason, "metadata set"),
                    Change::Verified { .. } => {}
                }
            }
            Self::Lapsed(Lapse::Expired) => tell!(info, "not renewed in time", "expired"),
            Self::Lapsed(Lapse::Broken) => tell!(info, "the break's period is over", "broken"),
            Self::Deleted => info!(namespace, lease, "deleted"),
        }
    }
}

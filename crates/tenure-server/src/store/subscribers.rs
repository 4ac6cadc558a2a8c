//! The subscribers to durable changes: the log file and the watchers.

use std::sync::Arc;

use tenure_core::lease::{Change, Lapse};
use tracing::{debug, info};

use crate::commit_queue::Subscriber;
use crate::events::Events;
use crate::model::{Cause, Content, LeaseChange};

/// Logs changes and publishes them as events.
#[derive(Debug)]
pub(super) struct Subscribers {
    pub(super) events: Arc<Events>,
}

impl Subscriber for Subscribers {
    fn committed(&self, changes: Vec<LeaseChange>) {
        changes.iter().for_each(log);
        self.events.publish(changes);
    }
}

/// Logs a change. Lease ids are secrets and stay out.
fn log(change: &LeaseChange) {
    let (namespace, lease) = (change.key.namespace(), change.key.lease());
    let grant = match &change.content {
        Content::Lease(stored) => stored.grant.as_ref(),
        Content::Deleted(_) => None,
    };
    let holder = grant.map_or("", |grant| grant.holder.as_str());
    let epoch = grant.map_or(0, |grant| grant.epoch.get());
    let reason = change.cause.reason().unwrap_or("");
    macro_rules! log {
        ($level:ident, $what:literal) => {
            $level!(namespace, lease, holder, epoch, reason, $what)
        };
    }
    match &change.cause {
        Cause::Requested(change, _) => match change {
            Change::Granted(_) => log!(info, "granted"),
            Change::Released => log!(info, "released"),
            Change::HandedOver => log!(info, "handed over"),
            Change::Breaking(_) => log!(info, "breaking"),
            Change::Broken => log!(info, "broken"),
            Change::Renewed(_) => log!(debug, "renewed for another duration"),
            Change::Changed => log!(debug, "lease id changed"),
            Change::MetadataSet => log!(debug, "metadata set"),
            Change::Verified { .. } => {}
        },
        Cause::Lapsed(Lapse::Expired) => log!(info, "expired"),
        Cause::Lapsed(Lapse::Broken) => log!(info, "broken"),
        Cause::Deleted => info!(namespace, lease, "deleted"),
    }
}

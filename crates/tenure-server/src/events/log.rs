//! The log of durable changes.

use tenure_core::lease::Change;
use tracing::{debug, info};

use crate::model::{Cause, LeaseChange};

/// Logs a change. Lease ids are secrets and stay out.
pub(super) fn log(change: &LeaseChange) {
    let (namespace, lease) = (change.key.namespace(), change.key.lease());
    let grant = change.stored().and_then(|stored| stored.grant.as_ref());
    let holder = grant.map_or("", |grant| grant.holder.as_str());
    let epoch = grant.map_or(0, |grant| grant.epoch.get());
    let reason = change.cause.reason().unwrap_or("");
    let kind = change.cause.kind().to_string();
    let what = match &change.cause {
        Cause::Deleted => return info!(namespace, lease, "deleted"),
        Cause::Requested(Change::HandedOver, _) => "handed over",
        Cause::Requested(Change::Renewed(_), _) => "renewed for another duration",
        Cause::Requested(Change::Changed, _) => "lease id changed",
        Cause::Requested(Change::MetadataSet, _) => "metadata set",
        _ => &kind,
    };
    match &change.cause {
        Cause::Requested(Change::Renewed(_) | Change::Changed | Change::MetadataSet, _) => {
            debug!(namespace, lease, holder, epoch, reason, "{what}");
        }
        _ => info!(namespace, lease, holder, epoch, reason, "{what}"),
    }
}

//! The subscribers to durable changes: the log file, the metrics, the audit log and the watchers.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use tenure_core::lease::{Change, Owner};
use tracing::field::display;
use tracing::{debug, info};

use crate::audit::Audit;
use crate::commit_queue::Subscriber;
use crate::events::Events;
use crate::metrics::StoreMetrics;
use crate::model::{Cause, LeaseChange};

/// The subscriber that logs and counts changes, records them in the audit log, and publishes them as events.
#[derive(Debug)]
pub(super) struct Subscribers {
    pub(super) events: Arc<Events>,
    pub(super) audit: Arc<OnceLock<Audit>>,
    pub(super) metrics: Arc<StoreMetrics>,
}

impl Subscriber for Subscribers {
    fn committed(&self, changes: Vec<LeaseChange>) {
        changes.iter().for_each(log);
        self.metrics.committed(&changes);
        if let Some(audit) = self.audit.get() {
            audit.record_changes(&changes);
        }
        self.events.publish(changes);
    }
}

/// Logs a change. Lease ids are secrets and are never logged.
fn log(change: &LeaseChange) {
    let election = display(change.key.as_str());
    let grant = change.grant();
    let candidate = grant.map(|grant| display(&grant.holder));
    let epoch = grant.map(|grant| grant.epoch.get());
    let principal = change.principal().map(Owner::as_str);
    let reason = change.cause.reason();
    let trace_id = change.trace.map(display);
    let kind = change.cause.kind();
    let what: &dyn Display = match &change.cause {
        Cause::Requested(Change::HandedOver, _) => &"handed over",
        Cause::Requested(Change::Renewed(_), _) => &"renewed for another duration",
        Cause::Requested(Change::Changed, _) => &"lease id changed",
        Cause::Requested(Change::MetadataSet, _) => &"metadata set",
        _ => &kind,
    };
    match &change.cause {
        Cause::Requested(Change::Renewed(_) | Change::Changed | Change::MetadataSet, _) => {
            debug!(
                election,
                epoch, candidate, principal, reason, trace_id, "{what}"
            );
        }
        _ => info!(
            election,
            epoch, candidate, principal, reason, trace_id, "{what}"
        ),
    }
}

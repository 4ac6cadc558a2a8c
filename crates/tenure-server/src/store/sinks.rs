//! The sinks of committed changes.

use std::fmt::Display;
use std::sync::Arc;

use tenure_core::lease::{Change, Owner};
use tracing::field::display;
use tracing::{debug, info};

use super::Lasting;
use super::history::PastTerms;
use crate::events::Events;
use crate::model::{Cause, LeaseChange, Sink};

/// Returns all sinks, in the order in which they get the changes. **A new sink is a line here.**
pub(super) fn all(
    events: &Arc<Events>,
    lasting: &Lasting,
    history: &Arc<PastTerms>,
) -> Vec<Arc<dyn Sink>> {
    vec![
        history.clone(),
        Arc::new(Log),
        lasting.metrics.clone(),
        lasting.audit.clone(),
        events.clone(),
    ]
}

/// The log of the process.
#[derive(Debug)]
struct Log;

impl Sink for Log {
    fn committed(&self, changes: &[LeaseChange]) {
        changes.iter().for_each(log);
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

//! A lease id is granted once: after its term it is retired, even if the lease is deleted.

use std::collections::BTreeMap;

use tenure_core::lease::RETIRED_LIMIT;

use super::{Evidence, Finding, Lease};
use crate::history::Ask;

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    let epochs = lease.epochs();
    let changes = lease.ops.iter();
    let changes = changes.filter(|(_, op)| matches!(op.ask, Ask::Change { .. }));
    // The store remembers a limited number. A few more terms may have no answer.
    let forgotten_after = (RETIRED_LIMIT * 3 / 4).saturating_sub(changes.count() / 4);
    let observations = lease.observations.iter().filter_map(|observation| {
        let holder = observation.view.holder.as_deref()?;
        Some((holder, observation.view.epoch?, observation.evidence))
    });
    let terms = lease.histories.iter().flat_map(|answer| {
        let evidence = answer.evidence;
        let terms = answer.terms.iter();
        terms.map(move |term| (term.holder.as_str(), term.epoch, evidence))
    });
    // A holder's name identifies its lease id and the ids that it was changed to.
    let mut granted: BTreeMap<&str, (u64, Evidence)> = BTreeMap::new();
    for (holder, epoch, evidence) in observations.chain(terms) {
        let (first, first_evidence) = *granted.entry(holder).or_insert((epoch, evidence));
        let (low, high) = (first.min(epoch), first.max(epoch));
        if low < high && epochs.range(low..high).count() < forgotten_after {
            let what =
                format!("the lease id of {holder} was granted under epochs {low} and {high}");
            return Some((what, vec![first_evidence, evidence]));
        }
    }
    None
}

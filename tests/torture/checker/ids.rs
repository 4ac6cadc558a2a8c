//! A lease id is granted once: after its term has ended it is retired, also if the lease is deleted.

use std::collections::BTreeMap;

use tenure_core::lease::RETIRED_LIMIT;

use super::{Finding, Lease, Place};
use crate::history::Ask;

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    let epochs = lease.epochs();
    let changes = lease.ops.iter();
    let changes = changes.filter(|(_, op)| matches!(op.ask, Ask::Change { .. }));
    // Only so many are remembered. Terms that nobody was told of are few beside those.
    let forgotten_after = (RETIRED_LIMIT * 3 / 4).saturating_sub(changes.count() / 4);
    let sights = lease.sights.iter().filter_map(|sight| {
        let holder = sight.view.holder.as_deref()?;
        Some((holder, sight.view.epoch?, sight.place))
    });
    let terms = lease.histories.iter().flat_map(|told| {
        let place = told.place;
        let terms = told.terms.iter();
        terms.map(move |term| (term.holder.as_str(), term.epoch, place))
    });
    // A holder's name stands for its lease id and for those that it was changed to.
    let mut granted: BTreeMap<&str, (u64, Place)> = BTreeMap::new();
    for (holder, epoch, place) in sights.chain(terms) {
        let (first, first_place) = *granted.entry(holder).or_insert((epoch, place));
        let (low, high) = (first.min(epoch), first.max(epoch));
        if low < high && epochs.range(low..high).count() < forgotten_after {
            let what =
                format!("the lease id of {holder} was granted under epochs {low} and {high}");
            return Some((what, vec![first_place, place]));
        }
    }
    None
}

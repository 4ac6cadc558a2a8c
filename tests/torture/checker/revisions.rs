//! Revisions of a lease never go back, and each shows the lease in one way.

use std::collections::BTreeMap;

use tenure_core::wire::LeaseView;

use super::{Finding, Lease, Shown, Sight, step_back};

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    two_contents(lease).or_else(|| backwards(lease))
}

fn two_contents(lease: &Lease<'_>) -> Option<Finding> {
    let mut first_of: BTreeMap<u64, &Sight<'_>> = BTreeMap::new();
    for sight in &lease.sights {
        let view = sight.view;
        let first = *first_of.entry(view.revision).or_insert(sight);
        if content(first.view) != content(view) {
            let what = format!(
                "revision {} was shown as {:?} and as {:?}",
                view.revision,
                content(first.view),
                content(view)
            );
            return Some((what, vec![first.place, sight.place]));
        }
    }
    None
}

/// What does not change but with the revision.
const fn content(view: &LeaseView) -> impl PartialEq + std::fmt::Debug + '_ {
    (view.state, &view.holder, view.epoch, &view.metadata)
}

fn backwards(lease: &Lease<'_>) -> Option<Finding> {
    let shown = lease.sights.iter().map(|sight| Shown {
        number: sight.view.revision,
        sent: sight.sent,
        at: sight.at,
        place: sight.place,
    });
    let (before, after) = step_back(shown.collect())?;
    let what = format!(
        "revision {} was shown when revision {} was known already",
        after.number, before.number
    );
    Some((what, vec![before.place, after.place]))
}

//! The revisions of a lease never decrease, and each has one content.

use std::collections::BTreeMap;

use tenure_core::wire::LeaseView;

use super::{Finding, Lease, Observation, ObservedNumber, step_back};

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    two_contents(lease).or_else(|| backwards(lease))
}

fn two_contents(lease: &Lease<'_>) -> Option<Finding> {
    let mut first_of: BTreeMap<u64, &Observation<'_>> = BTreeMap::new();
    for observation in &lease.observations {
        let view = observation.view;
        let first = *first_of.entry(view.revision).or_insert(observation);
        if content(first.view) != content(view) {
            let what = format!(
                "revision {} has two contents, {:?} and {:?}",
                view.revision,
                content(first.view),
                content(view)
            );
            return Some((what, vec![first.evidence, observation.evidence]));
        }
    }
    None
}

/// The fields that only change with the revision.
const fn content(view: &LeaseView) -> impl PartialEq + std::fmt::Debug + '_ {
    (view.state, &view.holder, view.epoch, &view.metadata)
}

fn backwards(lease: &Lease<'_>) -> Option<Finding> {
    let shown = lease.observations.iter().map(|observation| ObservedNumber {
        number: observation.view.revision,
        sent: observation.sent,
        at: observation.at,
        evidence: observation.evidence,
    });
    let (before, after) = step_back(shown.collect())?;
    let what = format!(
        "revision {} was shown after revision {} was known",
        after.number, before.number
    );
    Some((what, vec![before.evidence, after.evidence]))
}

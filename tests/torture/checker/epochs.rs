//! The epochs of a lease never decrease, and each has one holder.

use std::collections::BTreeMap;

use super::{Evidence, Finding, Lease, ObservedNumber, step_back};
use crate::history::Answer;

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    two_holders(lease).or_else(|| backwards(lease))
}

fn two_holders(lease: &Lease<'_>) -> Option<Finding> {
    let observations = lease.observations.iter().filter_map(|observation| {
        let holder = observation.view.holder.as_deref()?;
        Some((observation.view.epoch?, holder, observation.evidence))
    });
    let terms = lease.histories.iter().flat_map(|answer| {
        let evidence = answer.evidence;
        let terms = answer.terms.iter();
        terms.map(move |term| (term.epoch, term.holder.as_str(), evidence))
    });
    let ends = lease.ends.iter();
    let ends = ends.map(|(_, term, evidence)| (term.epoch, term.holder.as_str(), *evidence));
    let mut holders: BTreeMap<u64, (&str, Evidence)> = BTreeMap::new();
    for (epoch, holder, evidence) in observations.chain(terms).chain(ends) {
        let (first, first_evidence) = *holders.entry(epoch).or_insert((holder, evidence));
        if first != holder {
            let what = format!("epoch {epoch} has two holders, {first} and {holder}");
            return Some((what, vec![first_evidence, evidence]));
        }
    }
    None
}

fn backwards(lease: &Lease<'_>) -> Option<Finding> {
    let mut shown = Vec::new();
    for observation in &lease.observations {
        shown.extend(observation.view.epoch.map(|number| ObservedNumber {
            number,
            sent: observation.sent,
            at: observation.at,
            evidence: observation.evidence,
        }));
    }
    for (number, op) in &lease.ops {
        if let Some((
            at,
            Answer::Verified {
                epoch: Some(epoch), ..
            },
        )) = op.answered()
        {
            shown.push(ObservedNumber {
                number: *epoch,
                sent: op.sent,
                at,
                evidence: Evidence::Op(*number),
            });
        }
    }
    let (before, after) = step_back(shown)?;
    let what = format!(
        "epoch {} was shown as current after epoch {} was known",
        after.number, before.number
    );
    Some((what, vec![before.evidence, after.evidence]))
}

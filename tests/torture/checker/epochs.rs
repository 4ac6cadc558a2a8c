//! Epochs of a lease never go back, and each has one holder.

use std::collections::BTreeMap;

use super::{Finding, Lease, Place, Shown, step_back};
use crate::history::Answer;

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    two_holders(lease).or_else(|| backwards(lease))
}

fn two_holders(lease: &Lease<'_>) -> Option<Finding> {
    let sights = lease.sights.iter().filter_map(|sight| {
        let holder = sight.view.holder.as_deref()?;
        Some((sight.view.epoch?, holder, sight.place))
    });
    let terms = lease.histories.iter().flat_map(|told| {
        let place = told.place;
        let terms = told.terms.iter();
        terms.map(move |term| (term.epoch, term.holder.as_str(), place))
    });
    let ends = lease.ends.iter();
    let ends = ends.map(|(_, term, place)| (term.epoch, term.holder.as_str(), *place));
    let mut holders: BTreeMap<u64, (&str, Place)> = BTreeMap::new();
    for (epoch, holder, place) in sights.chain(terms).chain(ends) {
        let (first, first_place) = *holders.entry(epoch).or_insert((holder, place));
        if first != holder {
            let what = format!("epoch {epoch} was told to be {first}'s and {holder}'s");
            return Some((what, vec![first_place, place]));
        }
    }
    None
}

fn backwards(lease: &Lease<'_>) -> Option<Finding> {
    let mut shown = Vec::new();
    for sight in &lease.sights {
        shown.extend(sight.view.epoch.map(|number| Shown {
            number,
            sent: sight.sent,
            at: sight.at,
            place: sight.place,
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
            shown.push(Shown {
                number: *epoch,
                sent: op.sent,
                at,
                place: Place::Op(*number),
            });
        }
    }
    let (before, after) = step_back(shown)?;
    let what = format!(
        "epoch {} was current when epoch {} was known already",
        after.number, before.number
    );
    Some((what, vec![before.place, after.place]))
}

//! A lease that was acknowledged is there until it is deleted.

use tenure_core::Instant;
use tenure_core::wire::Code;

use super::{Finding, Lease, Place};
use crate::history::Answer;

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    let first = lease.sights.first()?;
    let is_missed = |sent: Instant, at: Instant, place: Place| {
        let is_known = first.at < sent && !lease.may_be_deleted(Instant::default(), at);
        let what = || "it was there, and nobody deleted it, and then it was not".to_owned();
        is_known.then(|| (what(), vec![first.place, place]))
    };
    let asked = lease.ops.iter().find_map(|(number, op)| {
        let (at, code) = op.refused()?;
        let is_unknown = code == Code::UnknownLease;
        is_unknown.then(|| is_missed(op.sent, at, Place::Op(*number)))?
    });
    asked.or_else(|| {
        let ops = lease.history.ops.iter().enumerate();
        let mut lists = ops.filter_map(|(number, op)| match op.answered()? {
            (at, Answer::List(list)) if list.next.is_none() => Some((number, op.sent, at, list)),
            _ => None,
        });
        lists.find_map(|(number, sent, at, list)| {
            let is_there = list.leases.iter().any(|view| view.lease == lease.name);
            if is_there {
                return None;
            }
            is_missed(sent, at, Place::Op(number))
        })
    })
}

//! A lease that was acknowledged exists until it is deleted.

use tenure_core::Instant;
use tenure_core::wire::Code;

use super::{Evidence, Finding, Lease};
use crate::history::Answer;

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    let first = lease.observations.first()?;
    let is_lost = |sent: Instant, at: Instant, evidence: Evidence| {
        let is_known = first.at < sent && !lease.may_be_deleted(Instant::default(), at);
        let what = || "the lease existed, no request deleted it, and it is gone".to_owned();
        is_known.then(|| (what(), vec![first.evidence, evidence]))
    };
    let asked = lease.ops.iter().find_map(|(number, op)| {
        let (at, code) = op.refused()?;
        let is_unknown = code == Code::UnknownLease;
        is_unknown.then(|| is_lost(op.sent, at, Evidence::Op(*number)))?
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
            is_lost(sent, at, Evidence::Op(number))
        })
    })
}

//! A client with an answer that it holds the lease is not refused before the end of its term,
//! unless a request ended the term.

use tenure_core::lease::LeaseId;
use tenure_core::wire::Code;

use super::{Evidence, Finding, Lease, Observation};
use crate::history::{Ask, Op};

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    lease.ops.iter().find_map(|(number, op)| {
        let (at, code) = op.refused()?;
        let (holder, id) = (op.holder.as_deref()?, op.ask.id()?);
        if !is_about_holding(code) || current_id(lease, holder, op) != Some(id) {
            return None;
        }
        let answer = lease.ops_of(holder).filter_map(|(number, op)| {
            let (at, view) = op.view()?;
            let evidence = Evidence::Op(number);
            Some(Observation { view, sent: op.sent, at, evidence })
        });
        let mut answer = answer.filter(|answer| answer.at <= op.sent);
        answer.find_map(|answer| {
            let epoch = answer.view.epoch?;
            let is_sure = lease.certain_end(&answer, at).is_some_and(|end| at < end);
            if !is_sure || lease.may_be_ended(holder, epoch, answer.sent, at) {
                return None;
            }
            let what = format!(
                "{holder} had an answer that it holds under epoch {epoch}, no request ended the term, and it was refused with {code:?} before its end"
            );
            Some((what, vec![answer.evidence, Evidence::Op(*number)]))
        })
    })
}

/// Whether the code means that the client does not hold the lease.
const fn is_about_holding(code: Code) -> bool {
    matches!(
        code,
        Code::LeaseHeld
            | Code::LeaseIdMismatch
            | Code::LeaseNotHeld
            | Code::LeaseBreaking
            | Code::LeaseBroken
            | Code::LeaseExpired
            | Code::LeaseIdRetired
            | Code::UnknownLease
    )
}

/// The holder's lease id while `op` was in flight; `None` if that is uncertain.
fn current_id(lease: &Lease<'_>, holder: &str, op: &Op) -> Option<LeaseId> {
    let mut acquires = lease.ops_of(holder).filter_map(|(_, op)| match op.ask {
        Ask::Acquire { id, .. } => Some(id),
        _ => None,
    });
    let mut id = acquires.next()?;
    let until = op.answered()?.0;
    for (_, change) in lease.ops_of(holder) {
        if let Ask::Change { proposed, .. } = change.ask
            && change.may_act_within(change.sent, until)
        {
            let (at, _) = change.view()?;
            if at > op.sent {
                return None;
            }
            id = proposed;
        }
    }
    Some(id)
}

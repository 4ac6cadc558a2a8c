//! Whoever was answered that it holds is not refused before its time is up, unless somebody ended its term.

use tenure_core::lease::LeaseId;
use tenure_core::wire::Code;

use super::{Finding, Lease, Place, Sight};
use crate::history::{Ask, Op};

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    lease.ops.iter().find_map(|(number, op)| {
        let (at, code) = op.refused()?;
        let (holder, id) = (op.holder.as_deref()?, op.ask.id()?);
        if !is_about_holding(code) || current_id(lease, holder, op) != Some(id) {
            return None;
        }
        let told = lease.ops_of(holder).filter_map(|(number, op)| {
            let (at, view) = op.view()?;
            let place = Place::Op(number);
            Some(Sight { view, sent: op.sent, at, place })
        });
        let mut told = told.filter(|told| told.at <= op.sent);
        told.find_map(|told| {
            let epoch = told.view.epoch?;
            let is_sure = lease.certain_end(&told, at).is_some_and(|end| at < end);
            if !is_sure || lease.may_be_ended(holder, epoch, told.sent, at) {
                return None;
            }
            let what = format!(
                "{holder} was told that it holds under epoch {epoch}, nobody ended that, and it was refused with {code:?} before its time was up"
            );
            Some((what, vec![told.place, Place::Op(*number)]))
        })
    })
}

/// Whether it says that somebody does not hold.
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

/// The id under which the holder held while `op` was under way; `None` if that is not sure.
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

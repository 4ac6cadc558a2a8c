//! All answers are possible by the rules of leases, in the order of revisions.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_core::Instant;
use tenure_core::lease::{LeaseDuration, LeaseId};
use tenure_core::wire::{Code, LeaseView};
use tenure_tests::history::{self, Call, Seen, What};

use super::{Evidence, Finding, Lease};
use crate::history::{Ask, Op};

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    // The answer to a deletion does not contain its revision.
    if lease.may_be_deleted(Instant::default(), Instant::default() + Duration::MAX) {
        return None;
    }
    let changes = lease.ops.iter().filter_map(|(_, op)| match op.ask {
        Ask::Change { proposed, .. } => Some(proposed),
        _ => None,
    });
    let changed: BTreeSet<LeaseId> = changes.collect();
    let ops = lease.ops.iter().filter(|(_, op)| {
        let is_read = matches!(op.ask, Ask::View | Ask::Poll { .. });
        let shown = op.view().filter(|_| is_read);
        shown.is_none_or(|(_, view)| !lease.history.may_be_unwritten(view))
    });
    let calls: Vec<Call> = ops.filter_map(|(_, op)| call(op, &changed)).collect();
    let (_, violation) = history::check(&calls).err()?;
    // The history check names epochs; these observations contain them.
    let text = format!("{violation:?}");
    let observed = lease.observations.iter().filter(|observation| {
        observation
            .view
            .epoch
            .is_some_and(|epoch| text.contains(&epoch.to_string()))
    });
    let mut evidence: Vec<Evidence> = observed.map(|observation| observation.evidence).collect();
    evidence.truncate(4);
    Some((text, evidence))
}

fn call(op: &Op, changed: &BTreeSet<LeaseId>) -> Option<Call> {
    // These refusals do not depend on the state of the lease.
    let is_other = |code| {
        matches!(
            code,
            Code::NotWaiting | Code::Unauthenticated | Code::Forbidden | Code::OutOfRange
        )
    };
    if op.refused().is_some_and(|(_, code)| is_other(code)) {
        return None;
    }
    let answer = match op.answered() {
        Some((at, _)) if op.refused().is_some() => Some((at, history::Answer::Refused)),
        _ => op
            .view()
            .map(|(at, view)| (at, history::Answer::Done(seen(view)))),
    };
    Some(Call {
        lease: op.lease.clone(),
        what: what(op, changed)?,
        sent: op.sent,
        answer,
    })
}

fn seen(view: &LeaseView) -> Seen {
    Seen {
        revision: view.revision,
        state: view.state,
        holder: view.holder.clone(),
        epoch: view.epoch,
    }
}

fn what(op: &Op, changed: &BTreeSet<LeaseId>) -> Option<What> {
    let fixed = |ms| LeaseDuration::Fixed(Duration::from_millis(ms));
    Some(match &op.ask {
        // The history check expects a term of its own for each id that acquires.
        Ask::Acquire {
            id, duration_ms, ..
        } if changed.contains(id) => What::Renew {
            lease_id: *id,
            duration: Some(fixed(*duration_ms)),
        },
        Ask::Acquire {
            id, duration_ms, ..
        } => What::Acquire {
            lease_id: *id,
            duration: fixed(*duration_ms),
            holder: op.holder.as_deref()?.parse().ok()?,
        },
        Ask::Renew { id, duration_ms } => What::Renew {
            lease_id: *id,
            duration: duration_ms.map(fixed),
        },
        Ask::Change { id, proposed } => What::Change {
            lease_id: *id,
            proposed: *proposed,
        },
        Ask::Metadata { id } => What::Describe { lease_id: *id },
        Ask::Release { id } => What::Release { lease_id: *id },
        Ask::HandOver {
            id: Some(id),
            to,
            within_ms,
            ..
        } => What::HandOver {
            lease_id: *id,
            to: to.parse().ok()?,
            within: Duration::from_millis(*within_ms),
        },
        Ask::HandOver { id: None, .. } | Ask::Break { .. } => What::Break,
        Ask::View | Ask::Poll { .. } => What::Read,
        Ask::Delete | Ask::Verify { .. } | Ask::Terms | Ask::List | Ask::SignIn => return None,
    })
}

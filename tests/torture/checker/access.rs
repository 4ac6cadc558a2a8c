//! From a confirmed removal of a token on, all requests with it and with its sessions are refused.
//! Soon after, no wait with it is granted a lease, and no stream with it has another event. A token
//! that is in the access file is never refused.

use std::collections::BTreeMap;

use tenure_core::lease::State;
use tenure_core::wire::Code;

use super::{Evidence, Finding, Lease, Observation};
use crate::history::{Answer, Ask, History, Received, Removal};

pub(super) fn check(history: &History) -> Option<Finding> {
    history.ops.iter().enumerate().find_map(|(number, op)| {
        let (at, answer) = op.answered()?;
        let code = match answer {
            Answer::Refused(problem) => Some(problem.code),
            _ => None,
        };
        let is_refused = match code {
            Some(Code::Unauthenticated | Code::Forbidden) => true,
            // No limit refuses a renewal, also not that of wrong credentials from its address.
            Some(Code::OverLimit) => matches!(op.ask, Ask::Renew { .. }),
            _ => false,
        };
        // The limit of wrong credentials, and a store that can't answer.
        let is_unanswered = code.is_some_and(|code| matches!(code.status(), 429 | 500..));
        let mut removals = removals(history, op.principal);
        let what = if is_refused {
            let may_be_removed =
                removals.any(|removal| removal.begin <= at && op.sent <= removal.end);
            (!op.by_session && !may_be_removed).then_some("a valid token was refused")
        } else {
            let removed = removals.find(|removal| {
                removal.in_force <= op.sent && at < removal.give_back && !is_unanswered
            });
            removed.map(|_| "a request with a removed token was not refused")
        };
        Some((
            format!("{}: {}", op.principal, what?),
            vec![Evidence::Op(number)],
        ))
    })
}

/// A grant after the end of all waits with a removed token.
pub(super) fn check_grants(lease: &Lease<'_>) -> Option<Finding> {
    lease.observations.iter().find_map(|granted| {
        let view = granted.view;
        let (holder, epoch) = (view.holder.as_deref()?, view.epoch?);
        let (_, op) = lease.ops_of(holder).next()?;
        let mut removals = removals(lease.history, op.principal);
        let removal = removals
            .find(|removal| removal.settled <= granted.at && granted.at < removal.give_back)?;
        let is_held = matches!(view.state, State::Leased | State::Breaking);
        // At that instant the term had not begun.
        let before = lease.observations.iter().find(|before| {
            let is_earlier = match before.view.epoch {
                Some(before) => before < epoch,
                None => is_held && before.view.revision < view.revision,
            };
            is_earlier && after(removal, before)
        })?;
        let what = format!(
            "{} has no token, and {holder} was granted epoch {epoch}",
            removal.principal
        );
        Some((what, vec![before.evidence, granted.evidence]))
    })
}

/// A stream that is opened with a removed token, or goes on with it.
pub(super) fn check_stream(
    history: &History,
    leases: &BTreeMap<&str, Lease<'_>>,
    number: usize,
) -> Option<Finding> {
    let stream = &history.streams[number];
    let mut received = stream.received.iter().enumerate();
    received.find_map(|(index, (at, received))| {
        let mut removals = removals(history, stream.principal).filter(|one| *at < one.give_back);
        let evidence = Evidence::Received(number, index);
        match received {
            Received::Opened(_, sent) => {
                let removal = removals.find(|removal| removal.in_force <= *sent)?;
                let what = format!("{} has no token, and opened a stream", removal.principal);
                Some((what, vec![evidence]))
            }
            Received::Event { event, .. } => {
                let lease = leases.get(&*event.view.lease)?;
                let removal = removals.find(|removal| removal.settled <= *at)?;
                // The event is a later change of the lease.
                let before = lease.observations.iter().find(|before| {
                    before.view.revision < event.view.revision && after(removal, before)
                })?;
                let what = format!(
                    "{} has no token, and its stream has revision {}",
                    removal.principal, event.view.revision
                );
                Some((what, vec![before.evidence, evidence]))
            }
            _ => None,
        }
    })
}

/// Whether the lease was observed after the end of all waits and streams.
fn after(removal: &Removal, observation: &Observation<'_>) -> bool {
    removal.settled <= observation.sent
}

fn removals<'h>(history: &'h History, principal: &str) -> impl Iterator<Item = &'h Removal> {
    let all = history.removals.iter();
    all.filter(move |removal| removal.principal == principal)
}

//! A term lasts at least as long as the store has promised, unless a request ends it: until then
//! there is no other grant.

use tenure_core::Instant;

use super::{Evidence, Finding, Lease, Observation};
use crate::history::Answer;

/// An observation that a term is over.
#[derive(Clone, Copy)]
struct Over {
    at: Instant,
    what: Reason,
    evidence: Evidence,
}

#[derive(Clone, Copy)]
enum Reason {
    /// Another term runs, or has ended.
    Another(u64),
    /// This term has ended.
    Ended(u64),
    /// At this revision the lease was free.
    Free(u64),
}

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    let mut overs = overs(lease);
    overs.sort_by_key(|over| over.at);
    lease
        .observations
        .iter()
        .find_map(|observation| early(lease, observation, &overs))
}

/// The first observation that the term is over before its promised end.
fn early(lease: &Lease<'_>, observation: &Observation<'_>, overs: &[Over]) -> Option<Finding> {
    let view = observation.view;
    let (epoch, holder) = (view.epoch?, view.holder.as_deref()?);
    let latest = lease.certain_end(observation, observation.sent)?;
    let first = overs.partition_point(|over| over.at < observation.sent);
    let before_its_end = overs[first..].iter().take_while(|over| over.at < latest);
    for over in before_its_end.filter(|over| over.ends(epoch, view.revision)) {
        let is_early = lease
            .certain_end(observation, over.at)
            .is_some_and(|end| over.at < end);
        if is_early && !lease.may_be_ended(holder, epoch, observation.sent, over.at) {
            let what = match over.what {
                Reason::Another(another) => format!("epoch {another} has begun"),
                Reason::Ended(_) | Reason::Free(_) => "the term was over".into(),
            };
            let left = latest.since(over.at).as_secs_f64() * 1e3;
            let what = format!(
                "{holder} held under epoch {epoch}, and no request ended the term; at least {left:.1} ms before its end {what}"
            );
            return Some((what, vec![observation.evidence, over.evidence]));
        }
    }
    None
}

impl Over {
    const fn ends(&self, epoch: u64, revision: u64) -> bool {
        match self.what {
            Reason::Another(another) => another > epoch,
            Reason::Ended(ended) => ended == epoch,
            Reason::Free(free) => free > revision,
        }
    }
}

fn overs(lease: &Lease<'_>) -> Vec<Over> {
    let mut overs = Vec::new();
    let mut add = |at, what, evidence| overs.push(Over { at, what, evidence });
    for observation in &lease.observations {
        let what = match observation.view.epoch {
            Some(epoch) => Reason::Another(epoch),
            None => Reason::Free(observation.view.revision),
        };
        add(observation.at, what, observation.evidence);
    }
    for answer in &lease.histories {
        for term in answer.terms {
            let ended = term.end.map(|_| Reason::Ended(term.epoch));
            add(answer.at, Reason::Another(term.epoch), answer.evidence);
            if let Some(ended) = ended {
                add(answer.at, ended, answer.evidence);
            }
        }
    }
    for (at, term, evidence) in &lease.ends {
        add(*at, Reason::Ended(term.epoch), *evidence);
    }
    for (number, op) in &lease.ops {
        if let Some((
            at,
            Answer::Verified {
                epoch: Some(epoch), ..
            },
        )) = op.answered()
        {
            add(at, Reason::Another(*epoch), Evidence::Op(*number));
        }
    }
    overs
}

//! The history of a lease has every term once and in order, and past terms do not change.

use std::collections::BTreeMap;

use tenure_core::lease::State;
use tenure_core::wire::TermView;

use super::{Evidence, Finding, HistoryAnswer, Lease};
use crate::history::Ask;

/// The number of terms per lease that a store remembers by default.
const MOST: usize = 100;

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    let histories = &lease.histories;
    histories
        .iter()
        .find_map(out_of_order)
        .or_else(|| {
            histories
                .iter()
                .find_map(|answer| without_cause(lease, answer))
        })
        .or_else(|| {
            histories
                .iter()
                .find_map(|answer| incomplete(lease, answer))
        })
        .or_else(|| changed_later(lease))
        .or_else(|| is_running_after_its_end(lease))
}

fn out_of_order(answer: &HistoryAnswer<'_>) -> Option<Finding> {
    let wrong = answer.terms.windows(2).find(|pair| {
        let [newer, older] = [&pair[0], &pair[1]];
        newer.epoch <= older.epoch || older.end.is_none()
    })?;
    let what = format!(
        "the history has epoch {} before epoch {}, whose end is {:?}",
        wrong[0].epoch, wrong[1].epoch, wrong[1].end
    );
    Some((what, vec![answer.evidence]))
}

/// A term whose end is a break or a hand-over without such a request.
fn without_cause(lease: &Lease<'_>, answer: &HistoryAnswer<'_>) -> Option<Finding> {
    use tenure_core::lease::TermEnd::{Broken, HandedOver};
    let wrong = answer.terms.iter().find(|term| {
        let may_be_due_to = |is_cause: fn(&Ask) -> bool| {
            let mut ops = lease.ops.iter();
            ops.any(|(_, op)| is_cause(&op.ask) && op.may_act_within(op.sent, answer.at))
        };
        match term.end {
            Some(Broken) => !may_be_due_to(|ask| matches!(ask, Ask::Break { .. })),
            Some(HandedOver) => !may_be_due_to(|ask| matches!(ask, Ask::HandOver { .. })),
            _ => false,
        }
    })?;
    let what = format!(
        "epoch {} has the end {:?}, without such a request",
        wrong.epoch, wrong.end
    );
    Some((what, vec![answer.evidence]))
}

/// A term that was known before the request for the history, and is not in it.
fn incomplete(lease: &Lease<'_>, answer: &HistoryAnswer<'_>) -> Option<Finding> {
    let oldest = answer.terms.last().map_or(0, |term| term.epoch);
    let is_whole = answer.terms.len() < MOST;
    let known = lease
        .observations
        .iter()
        .take_while(|observation| observation.at < answer.sent);
    let missing = known.filter(|observation| {
        observation.view.epoch.is_some_and(|epoch| {
            let is_there = answer.terms.iter().any(|term| term.epoch == epoch);
            !is_there && (is_whole || epoch > oldest)
        })
    });
    let mut missing =
        missing.filter(|observation| !lease.may_be_deleted(observation.sent, answer.at));
    let observation = missing.next()?;
    let what = format!(
        "the history does not contain epoch {:?}",
        observation.view.epoch?
    );
    Some((what, vec![observation.evidence, answer.evidence]))
}

/// An ended term that later has another end or none.
fn changed_later(lease: &Lease<'_>) -> Option<Finding> {
    let mut arrived: Vec<_> = lease.histories.iter().collect();
    arrived.sort_by_key(|answer| answer.at);
    let mut arrived = arrived.into_iter().peekable();
    let mut ended: BTreeMap<u64, (&TermView, &HistoryAnswer<'_>)> = BTreeMap::new();
    for answer in &lease.histories {
        while let Some(earlier) = arrived.next_if(|earlier| earlier.at < answer.sent) {
            let terms = earlier.terms.iter().filter(|term| term.end.is_some());
            for term in terms {
                ended.entry(term.epoch).or_insert((term, earlier));
            }
        }
        let oldest = answer.terms.last().map_or(0, |term| term.epoch);
        for (epoch, (before, earlier)) in &ended {
            let after = answer.terms.iter().find(|term| term.epoch == *epoch);
            let is_wrong = match after {
                Some(after) => after != *before,
                None => {
                    let may_be_gone = answer.terms.len() >= MOST && *epoch < oldest;
                    !may_be_gone && !lease.may_be_deleted(earlier.sent, answer.at)
                }
            };
            if is_wrong {
                let what = format!(
                    "the history had {}; later it has {}",
                    text(Some(before)),
                    text(after)
                );
                return Some((what, vec![earlier.evidence, answer.evidence]));
            }
        }
    }
    None
}

/// An ended term that later is running.
fn is_running_after_its_end(lease: &Lease<'_>) -> Option<Finding> {
    let by_histories = lease.histories.iter().flat_map(|answer| {
        let ended = answer.terms.iter().filter(|term| term.end.is_some());
        ended.map(move |term| (answer.at, term.epoch, answer.evidence))
    });
    let ends = lease.ends.iter();
    let by_events = ends.map(|(at, term, evidence)| (*at, term.epoch, *evidence));
    let mut ended = BTreeMap::new();
    for (at, epoch, evidence) in by_histories.chain(by_events) {
        let first = ended.entry(epoch).or_insert((at, evidence));
        *first = (*first).min((at, evidence));
    }
    lease.observations.iter().find_map(|observation| {
        let epoch = observation.view.epoch?;
        let (at, evidence): &(_, Evidence) = ended.get(&epoch)?;
        let is_held = matches!(observation.view.state, State::Leased | State::Breaking);
        let what = || format!("epoch {epoch} had ended, and is running");
        (is_held && *at < observation.sent).then(|| (what(), vec![*evidence, observation.evidence]))
    })
}

fn text(term: Option<&TermView>) -> String {
    let Some(term) = term else {
        return "no such term".into();
    };
    let ended_at = term.ended_at.as_deref().unwrap_or("no time");
    format!(
        "epoch {} of {} with the end {:?} at {ended_at} and the reason {:?}",
        term.epoch, term.holder, term.end, term.reason
    )
}

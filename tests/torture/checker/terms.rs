//! The history of a lease has every term once and in order, and keeps to what it has told.

use std::collections::BTreeMap;

use tenure_core::lease::State;
use tenure_core::wire::TermView;

use super::{Finding, Lease, Place, Told};
use crate::history::Ask;

/// How many terms a store remembers of a lease by default.
const MOST: usize = 100;

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    let histories = &lease.histories;
    histories
        .iter()
        .find_map(out_of_order)
        .or_else(|| histories.iter().find_map(|told| causeless(lease, told)))
        .or_else(|| histories.iter().find_map(|told| incomplete(lease, told)))
        .or_else(|| taken_back(lease))
        .or_else(|| goes_on(lease))
}

fn out_of_order(told: &Told<'_>) -> Option<Finding> {
    let wrong = told.terms.windows(2).find(|pair| {
        let [newer, older] = [&pair[0], &pair[1]];
        newer.epoch <= older.epoch || older.end.is_none()
    })?;
    let what = format!(
        "the history has epoch {} before epoch {}, whose end is {:?}",
        wrong[0].epoch, wrong[1].epoch, wrong[1].end
    );
    Some((what, vec![told.place]))
}

/// A term that somebody broke or handed over, though nobody asked for that.
fn causeless(lease: &Lease<'_>, told: &Told<'_>) -> Option<Finding> {
    use tenure_core::lease::TermEnd::{Broken, HandedOver};
    let wrong = told.terms.iter().find(|term| {
        let may_be_due_to = |is_cause: fn(&Ask) -> bool| {
            let mut ops = lease.ops.iter();
            ops.any(|(_, op)| is_cause(&op.ask) && op.may_act_within(op.sent, told.at))
        };
        match term.end {
            Some(Broken) => !may_be_due_to(|ask| matches!(ask, Ask::Break { .. })),
            Some(HandedOver) => !may_be_due_to(|ask| matches!(ask, Ask::HandOver { .. })),
            _ => false,
        }
    })?;
    let what = format!(
        "epoch {} is told to be {:?}, and nobody asked for that",
        wrong.epoch, wrong.end
    );
    Some((what, vec![told.place]))
}

/// A term that was known when the history was asked for, and is not in it.
fn incomplete(lease: &Lease<'_>, told: &Told<'_>) -> Option<Finding> {
    let oldest = told.terms.last().map_or(0, |term| term.epoch);
    let is_whole = told.terms.len() < MOST;
    let known = lease.sights.iter().take_while(|sight| sight.at < told.sent);
    let missing = known.filter(|sight| {
        sight.view.epoch.is_some_and(|epoch| {
            let is_there = told.terms.iter().any(|term| term.epoch == epoch);
            !is_there && (is_whole || epoch > oldest)
        })
    });
    let mut missing = missing.filter(|sight| !lease.may_be_deleted(sight.sent, told.at));
    let sight = missing.next()?;
    let what = format!("the history lacks epoch {:?}", sight.view.epoch?);
    Some((what, vec![sight.place, told.place]))
}

/// A term that was told to have ended, and later in another way or not.
fn taken_back(lease: &Lease<'_>) -> Option<Finding> {
    let mut arrived: Vec<_> = lease.histories.iter().collect();
    arrived.sort_by_key(|told| told.at);
    let mut arrived = arrived.into_iter().peekable();
    let mut ended: BTreeMap<u64, (&TermView, &Told<'_>)> = BTreeMap::new();
    for told in &lease.histories {
        while let Some(earlier) = arrived.next_if(|earlier| earlier.at < told.sent) {
            let terms = earlier.terms.iter().filter(|term| term.end.is_some());
            for term in terms {
                ended.entry(term.epoch).or_insert((term, earlier));
            }
        }
        let oldest = told.terms.last().map_or(0, |term| term.epoch);
        for (epoch, (before, earlier)) in &ended {
            let after = told.terms.iter().find(|term| term.epoch == *epoch);
            let is_wrong = match after {
                Some(after) => after != *before,
                None => {
                    let may_be_gone = told.terms.len() >= MOST && *epoch < oldest;
                    !may_be_gone && !lease.may_be_deleted(earlier.sent, told.at)
                }
            };
            if is_wrong {
                let what = format!(
                    "the history had told {}; then it told {}",
                    text(Some(before)),
                    text(after)
                );
                return Some((what, vec![earlier.place, told.place]));
            }
        }
    }
    None
}

/// A term that was told to have ended, and then goes on.
fn goes_on(lease: &Lease<'_>) -> Option<Finding> {
    let by_histories = lease.histories.iter().flat_map(|told| {
        let ended = told.terms.iter().filter(|term| term.end.is_some());
        ended.map(move |term| (told.at, term.epoch, told.place))
    });
    let ends = lease.ends.iter();
    let by_events = ends.map(|(at, term, place)| (*at, term.epoch, *place));
    let mut ended = BTreeMap::new();
    for (at, epoch, place) in by_histories.chain(by_events) {
        let first = ended.entry(epoch).or_insert((at, place));
        *first = (*first).min((at, place));
    }
    lease.sights.iter().find_map(|sight| {
        let epoch = sight.view.epoch?;
        let (at, place): &(_, Place) = ended.get(&epoch)?;
        let is_held = matches!(sight.view.state, State::Leased | State::Breaking);
        let what = || format!("epoch {epoch} was told to have ended, and goes on");
        (is_held && *at < sight.sent).then(|| (what(), vec![*place, sight.place]))
    })
}

fn text(term: Option<&TermView>) -> String {
    let Some(term) = term else {
        return "nothing of it".into();
    };
    let ended_at = term.ended_at.as_deref().unwrap_or("no time");
    format!(
        "epoch {} of {} with the end {:?} at {ended_at} and the reason {:?}",
        term.epoch, term.holder, term.end, term.reason
    )
}

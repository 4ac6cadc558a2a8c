//! Whether what clients were told can be true: one file for each thing that must hold.
//!
//! An answer is about an instant between its question and its arrival, and a request without an answer may
//! have been done at any time, or not at all. Each check takes the reading that excuses the store most,
//! so what it reports is certain.

mod answers;
mod epochs;
mod events;
mod exclusion;
mod holder;
mod ids;
mod lost;
mod revisions;
mod rules;
mod terms;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tenure_core::Instant;
use tenure_core::lease::State;
use tenure_core::wire::{EventKind, LeaseView, PastTerm, TermView};

use crate::history::{Answer, Ask, Heard, History, Op, Outcome};

/// What a history shows that must not be.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    /// Which check found it.
    pub(crate) invariant: &'static str,
    pub(crate) lease: String,
    /// What is wrong, as a sentence.
    pub(crate) what: String,
    /// What shows it.
    pub(crate) places: Vec<Place>,
}

/// Where something was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// In the answer to this operation.
    Op(usize),
    /// By this stream, so many things after its begin.
    Heard(usize, usize),
}

/// Everything that must hold of one lease.
const CHECKS: [(&str, Check); 8] = [
    ("exclusion", exclusion::check),
    ("holder", holder::check),
    ("epochs", epochs::check),
    ("ids", ids::check),
    ("revisions", revisions::check),
    ("terms", terms::check),
    ("lost", lost::check),
    ("rules", rules::check),
];

/// Looks at one lease.
type Check = fn(&Lease<'_>) -> Option<Finding>;

/// What a check found, and what shows it.
type Finding = (String, Vec<Place>);

/// Everything that is wrong with a history: of each check the first finding of each lease.
pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut add = |invariant, lease: &str, finding: Option<Finding>| {
        found.extend(finding.map(|(what, places)| Violation {
            invariant,
            lease: lease.to_owned(),
            what,
            places,
        }));
    };
    let leases = leases(history);
    for lease in leases.values() {
        for (invariant, check) in CHECKS {
            add(invariant, lease.name, check(lease));
        }
    }
    add("answers", "", answers::check(history));
    for stream in 0..history.streams.len() {
        add("events", "", events::check(history, &leases, stream));
    }
    found
}

/// All that was asked and told of one lease.
struct Lease<'a> {
    name: &'a str,
    history: &'a History,
    /// In the order of the questions.
    ops: Vec<(usize, &'a Op)>,
    /// Every view of it that somebody was shown, in the order of arrival.
    sights: Vec<Sight<'a>>,
    /// The answers with its history, in the order of the questions.
    histories: Vec<Told<'a>>,
    /// The ends of terms that streams told.
    ends: Vec<(Instant, &'a PastTerm, Place)>,
}

/// The lease as somebody was shown it.
#[derive(Clone, Copy)]
struct Sight<'a> {
    view: &'a LeaseView,
    /// When the question was sent; the origin for events, of which that is not known.
    sent: Instant,
    at: Instant,
    place: Place,
}

/// An answer with the terms of the lease.
#[derive(Clone, Copy)]
struct Told<'a> {
    terms: &'a [TermView],
    sent: Instant,
    at: Instant,
    place: Place,
}

fn leases(history: &History) -> BTreeMap<&str, Lease<'_>> {
    let mut leases = BTreeMap::new();
    for (number, op) in history.ops.iter().enumerate() {
        let place = Place::Op(number);
        if !op.lease.is_empty() {
            let lease = entry(&mut leases, history, &op.lease);
            lease.ops.push((number, op));
        }
        match op.answered() {
            Some((at, Answer::View(view))) => {
                let lease = entry(&mut leases, history, &view.lease);
                lease.see(op.sent, at, view, place);
            }
            Some((at, Answer::List(list))) => {
                for view in &list.leases {
                    let lease = entry(&mut leases, history, &view.lease);
                    lease.see(op.sent, at, view, place);
                }
            }
            Some((at, Answer::Terms(terms))) => {
                entry(&mut leases, history, &op.lease).histories.push(Told {
                    terms,
                    sent: op.sent,
                    at,
                    place,
                });
            }
            _ => {}
        }
    }
    for (number, stream) in history.streams.iter().enumerate() {
        for (index, (at, heard)) in stream.heard.iter().enumerate() {
            let Heard::Event { kind, event, .. } = heard else {
                continue;
            };
            let place = Place::Heard(number, index);
            let lease = entry(&mut leases, history, &event.view.lease);
            if let Some(term) = &event.term {
                lease.ends.push((*at, term, place));
            }
            // A lease that is deleted is shown as it was never.
            if *kind != EventKind::Deleted {
                lease.see(Instant::default(), *at, &event.view, place);
            }
        }
    }
    for lease in leases.values_mut() {
        lease.ops.sort_by_key(|(_, op)| op.sent);
        lease.sights.sort_by_key(|sight| sight.at);
        lease.histories.sort_by_key(|told| told.sent);
    }
    leases
}

fn entry<'a, 'm>(
    leases: &'m mut BTreeMap<&'a str, Lease<'a>>,
    history: &'a History,
    name: &'a str,
) -> &'m mut Lease<'a> {
    leases.entry(name).or_insert_with(|| Lease {
        name,
        history,
        ops: Vec::new(),
        sights: Vec::new(),
        histories: Vec::new(),
        ends: Vec::new(),
    })
}

impl<'a> Lease<'a> {
    fn see(&mut self, sent: Instant, at: Instant, view: &'a LeaseView, place: Place) {
        if !self.history.may_be_unwritten(view) {
            self.sights.push(Sight {
                view,
                sent,
                at,
                place,
            });
        }
    }

    /// Until when the term that is shown certainly goes on, if nobody ends it: what is left was counted
    /// from an instant after the question. `None` if that is not known.
    ///
    /// A renewal for a shorter time, asked for before `until`, may shorten it.
    fn certain_end(&self, sight: &Sight<'_>, until: Instant) -> Option<Instant> {
        let view = sight.view;
        if view.state != State::Leased {
            return None;
        }
        let left = Duration::from_millis(view.remaining_ms?);
        let mut end = sight.sent + left;
        for (_, op) in self.ops_of(view.holder.as_deref()?) {
            if let Ask::Renew {
                duration_ms: Some(ms),
                ..
            } = op.ask
                && op.may_act_within(sight.sent, until)
            {
                end = end.min(op.sent.max(sight.sent) + Duration::from_millis(ms));
            }
        }
        Some(end)
    }

    /// Whether a request may have ended this holder's term after `since` and before `until`.
    fn may_be_ended(&self, holder: &str, epoch: u64, since: Instant, until: Instant) -> bool {
        // The store gives a grant up that nobody was told of, because the client has gone.
        let is_told = self.is_told(holder, epoch);
        self.ops.iter().any(|(_, op)| {
            let is_own = op.holder.as_deref() == Some(holder);
            let ends = match op.ask {
                Ask::Break { .. } | Ask::HandOver { id: None, .. } => true,
                Ask::Release { .. } | Ask::HandOver { .. } => is_own,
                Ask::Acquire { .. } => {
                    is_own && !is_told && matches!(op.outcome, Outcome::Unknown { .. })
                }
                _ => false,
            };
            ends && op.may_act_within(since, until)
        })
    }

    /// Whether the holder itself was ever answered that it holds under this epoch.
    fn is_told(&self, holder: &str, epoch: u64) -> bool {
        self.ops_of(holder)
            .any(|(_, op)| op.view().is_some_and(|(_, view)| view.epoch == Some(epoch)))
    }

    fn ops_of<'s>(&'s self, holder: &'s str) -> impl Iterator<Item = (usize, &'s Op)> {
        let of_it = move |op: &Op| op.holder.as_deref() == Some(holder);
        let all = self.ops.iter().filter(move |(_, op)| of_it(op));
        all.copied()
    }

    /// Whether a deletion may have been done after `since` and before `until`.
    fn may_be_deleted(&self, since: Instant, until: Instant) -> bool {
        let mut deletions = self.ops.iter().filter(|(_, op)| op.ask == Ask::Delete);
        deletions.any(|(_, op)| op.may_act_within(since, until))
    }

    /// All epochs that anybody was shown.
    fn epochs(&self) -> BTreeSet<u64> {
        let seen = self.sights.iter().filter_map(|sight| sight.view.epoch);
        let terms = self.histories.iter().flat_map(|told| told.terms);
        seen.chain(terms.map(|term| term.epoch)).collect()
    }
}

/// A number that somebody was shown.
#[derive(Clone, Copy)]
struct Shown {
    number: u64,
    sent: Instant,
    at: Instant,
    place: Place,
}

/// Two of these, of which the second one was asked for when the first one was known, and is smaller.
fn step_back(mut shown: Vec<Shown>) -> Option<(Shown, Shown)> {
    shown.sort_by_key(|shown| shown.at);
    let mut arrived = shown.clone().into_iter().peekable();
    shown.sort_by_key(|shown| shown.sent);
    let mut greatest: Option<Shown> = None;
    for later in shown {
        while let Some(earlier) = arrived.next_if(|earlier| earlier.at < later.sent) {
            if greatest.is_none_or(|greatest| earlier.number > greatest.number) {
                greatest = Some(earlier);
            }
        }
        if let Some(earlier) = greatest.filter(|earlier| later.number < earlier.number) {
            return Some((earlier, later));
        }
    }
    None
}

#[cfg(test)]
mod tests;

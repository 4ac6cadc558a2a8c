//! Checks whether a history is possible: one file for each invariant.
//!
//! An answer describes an instant between its request and its arrival, and a request without an
//! answer may have taken effect at any time, or not at all. Each check assumes the case that is
//! best for the store, so its findings are certain.

mod access;
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

use crate::history::{Answer, Ask, History, Op, Outcome, Received};

/// A finding in a history.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    /// The check that found it.
    pub(crate) invariant: &'static str,
    pub(crate) lease: String,
    /// The finding as a sentence.
    pub(crate) what: String,
    /// The operations and events that show it.
    pub(crate) evidence: Vec<Evidence>,
}

/// An operation or event of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Evidence {
    /// The answer to this operation.
    Op(usize),
    /// This stream, and the index of the event in it.
    Received(usize, usize),
}

/// The invariants of a single lease.
const CHECKS: [(&str, Check); 9] = [
    ("exclusion", exclusion::check),
    ("holder", holder::check),
    ("epochs", epochs::check),
    ("ids", ids::check),
    ("revisions", revisions::check),
    ("terms", terms::check),
    ("lost", lost::check),
    ("rules", rules::check),
    ("access", access::check_grants),
];

/// Checks one lease.
type Check = fn(&Lease<'_>) -> Option<Finding>;

/// The finding of a check, and its evidence.
type Finding = (String, Vec<Evidence>);

/// All findings in a history: for each check and lease, the first one.
pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut add = |invariant, lease: &str, finding: Option<Finding>| {
        found.extend(finding.map(|(what, evidence)| Violation {
            invariant,
            lease: lease.to_owned(),
            what,
            evidence,
        }));
    };
    let leases = leases(history);
    for lease in leases.values() {
        for (invariant, check) in CHECKS {
            add(invariant, lease.name, check(lease));
        }
    }
    add("answers", "", answers::check(history));
    add("access", "", access::check(history));
    for stream in 0..history.streams.len() {
        add("events", "", events::check(history, &leases, stream));
        add("access", "", access::check_stream(history, &leases, stream));
    }
    found
}

/// All requests, answers and events about one lease.
struct Lease<'a> {
    name: &'a str,
    history: &'a History,
    /// In the order of sending.
    ops: Vec<(usize, &'a Op)>,
    /// All views of the lease that clients have received, in the order of arrival.
    observations: Vec<Observation<'a>>,
    /// The answers with the lease's history, in the order of sending.
    histories: Vec<HistoryAnswer<'a>>,
    /// The ends of terms in streams.
    ends: Vec<(Instant, &'a PastTerm, Evidence)>,
}

/// A view of the lease that a client has received.
#[derive(Clone, Copy)]
struct Observation<'a> {
    view: &'a LeaseView,
    /// When the request was sent; the origin for events, where that is unknown.
    sent: Instant,
    at: Instant,
    evidence: Evidence,
}

/// An answer with the terms of the lease.
#[derive(Clone, Copy)]
struct HistoryAnswer<'a> {
    terms: &'a [TermView],
    sent: Instant,
    at: Instant,
    evidence: Evidence,
}

fn leases(history: &History) -> BTreeMap<&str, Lease<'_>> {
    let mut leases = BTreeMap::new();
    for (number, op) in history.ops.iter().enumerate() {
        let evidence = Evidence::Op(number);
        if !op.lease.is_empty() {
            let lease = entry(&mut leases, history, &op.lease);
            lease.ops.push((number, op));
        }
        match op.answered() {
            Some((at, Answer::View(view))) => {
                let lease = entry(&mut leases, history, &view.lease);
                lease.observe(op.sent, at, view, evidence);
            }
            Some((at, Answer::List(list))) => {
                for view in &list.leases {
                    let lease = entry(&mut leases, history, &view.lease);
                    lease.observe(op.sent, at, view, evidence);
                }
            }
            Some((at, Answer::Terms(terms))) => {
                entry(&mut leases, history, &op.lease)
                    .histories
                    .push(HistoryAnswer {
                        terms,
                        sent: op.sent,
                        at,
                        evidence,
                    });
            }
            _ => {}
        }
    }
    for (number, stream) in history.streams.iter().enumerate() {
        for (index, (at, received)) in stream.received.iter().enumerate() {
            let Received::Event { kind, event, .. } = received else {
                continue;
            };
            let evidence = Evidence::Received(number, index);
            let lease = entry(&mut leases, history, &event.view.lease);
            if let Some(term) = &event.term {
                lease.ends.push((*at, term, evidence));
            }
            // A deleted lease looks like one that never existed.
            if *kind != EventKind::Deleted {
                lease.observe(Instant::default(), *at, &event.view, evidence);
            }
        }
    }
    for lease in leases.values_mut() {
        lease.ops.sort_by_key(|(_, op)| op.sent);
        lease.observations.sort_by_key(|observation| observation.at);
        lease.histories.sort_by_key(|answer| answer.sent);
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
        observations: Vec::new(),
        histories: Vec::new(),
        ends: Vec::new(),
    })
}

impl<'a> Lease<'a> {
    fn observe(&mut self, sent: Instant, at: Instant, view: &'a LeaseView, evidence: Evidence) {
        if !self.history.may_be_unwritten(view) {
            self.observations.push(Observation {
                view,
                sent,
                at,
                evidence,
            });
        }
    }

    /// The instant until which the term certainly lasts, if no request ends it: the remaining time
    /// counts from an instant after the sending. `None` if unknown.
    ///
    /// A renewal for a shorter time that was sent before `until` may shorten it.
    fn certain_end(&self, observation: &Observation<'_>, until: Instant) -> Option<Instant> {
        let view = observation.view;
        if view.state != State::Leased {
            return None;
        }
        let left = Duration::from_millis(view.remaining_ms?);
        let mut end = observation.sent + left;
        for (_, op) in self.ops_of(view.holder.as_deref()?) {
            if let Ask::Renew {
                duration_ms: Some(ms),
                ..
            } = op.ask
                && op.may_act_within(observation.sent, until)
            {
                end = end.min(op.sent.max(observation.sent) + Duration::from_millis(ms));
            }
        }
        Some(end)
    }

    /// Whether a request may have ended this holder's term after `since` and before `until`.
    fn may_be_ended(&self, holder: &str, epoch: u64, since: Instant, until: Instant) -> bool {
        // The store withdraws a grant if its client has closed the connection before the answer.
        let is_answered = self.is_answered(holder, epoch);
        self.ops.iter().any(|(_, op)| {
            let is_own = op.holder.as_deref() == Some(holder);
            let ends = match op.ask {
                Ask::Break { .. } | Ask::HandOver { id: None, .. } => true,
                Ask::Release { .. } | Ask::HandOver { .. } => is_own,
                Ask::Acquire { .. } => {
                    let is_unknown = matches!(op.outcome, Outcome::Unknown { .. });
                    is_own && !is_answered && (is_unknown || op.is_ended_wait())
                }
                _ => false,
            };
            ends && op.may_act_within(since, until)
        })
    }

    /// Whether the holder has received an answer that it holds the lease under this epoch.
    fn is_answered(&self, holder: &str, epoch: u64) -> bool {
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

    /// All epochs that any client has seen.
    fn epochs(&self) -> BTreeSet<u64> {
        let seen = self
            .observations
            .iter()
            .filter_map(|observation| observation.view.epoch);
        let terms = self.histories.iter().flat_map(|answer| answer.terms);
        seen.chain(terms.map(|term| term.epoch)).collect()
    }
}

/// A number that a client has seen.
#[derive(Clone, Copy)]
struct ObservedNumber {
    number: u64,
    sent: Instant,
    at: Instant,
    evidence: Evidence,
}

/// Two numbers, where the second is smaller and was requested after the first was known.
fn step_back(mut shown: Vec<ObservedNumber>) -> Option<(ObservedNumber, ObservedNumber)> {
    shown.sort_by_key(|shown| shown.at);
    let mut arrived = shown.clone().into_iter().peekable();
    shown.sort_by_key(|shown| shown.sent);
    let mut greatest: Option<ObservedNumber> = None;
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

//! A stream has every change once and in order, skips changes only with a reset, and contains no
//! secret.

use std::collections::{BTreeMap, BTreeSet};

use super::{Evidence, Finding, Lease, Observation};
use crate::history::{Ask, History, Received, Stream};

/// A part of a stream without gaps: after this revision, it contains these.
struct Span {
    after: u64,
    received_revisions: BTreeSet<u64>,
    begin: Evidence,
    end: Evidence,
}

pub(super) fn check(
    history: &History,
    leases: &BTreeMap<&str, Lease<'_>>,
    number: usize,
) -> Option<Finding> {
    let stream = &history.streams[number];
    let finding = blocks(stream, number);
    let finding = finding.or_else(|| order(stream, number));
    finding.or_else(|| {
        let spans = spans(stream, number);
        complete(stream, &spans, leases).or_else(|| reaches_the_end(stream, &spans, leases))
    })
}

/// Each block is an event of a watched lease, and contains no lease id.
fn blocks(stream: &Stream, number: usize) -> Option<Finding> {
    let mut received = stream.received.iter().enumerate();
    received.find_map(|(index, (_, received))| {
        let what = match received {
            Received::Unexpected(text) => format!("a stream contains {text}"),
            Received::Event {
                has_lease_id: true, ..
            } => "an event contains a lease id".into(),
            Received::Event { id, event, .. } => {
                let is_watched = |lease: &String| *lease == event.view.lease;
                let is_other = id.is_some_and(|id| id != event.view.revision);
                if is_other || !stream.lease.as_ref().is_none_or(is_watched) {
                    format!(
                        "event {id:?} has revision {} of {}",
                        event.view.revision, event.view.lease
                    )
                } else {
                    return None;
                }
            }
            _ => return None,
        };
        Some((what, vec![Evidence::Received(number, index)]))
    })
}

/// Revisions only increase, over all connections.
fn order(stream: &Stream, number: usize) -> Option<Finding> {
    let mut last = (0, Evidence::Received(number, 0));
    for (index, (_, received)) in stream.received.iter().enumerate() {
        let evidence = Evidence::Received(number, index);
        match received {
            Received::Event { id: Some(id), .. } if *id <= last.0 => {
                let what = format!("a stream has revision {id} after revision {}", last.0);
                return Some((what, vec![last.1, evidence]));
            }
            Received::Event { id: Some(id), .. } | Received::Reset(id) => last = (*id, evidence),
            _ => {}
        }
    }
    None
}

fn spans(stream: &Stream, number: usize) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (index, (_, received)) in stream.received.iter().enumerate() {
        let evidence = Evidence::Received(number, index);
        match received {
            Received::Reset(after) => spans.push(Span {
                after: *after,
                received_revisions: BTreeSet::new(),
                begin: evidence,
                end: evidence,
            }),
            Received::Event { id: Some(id), .. } => {
                if let Some(span) = spans.last_mut() {
                    span.received_revisions.insert(*id);
                    span.end = evidence;
                }
            }
            _ => {}
        }
    }
    spans
}

/// A span of the stream contains every revision within it that any client has seen.
fn complete(
    stream: &Stream,
    spans: &[Span],
    leases: &BTreeMap<&str, Lease<'_>>,
) -> Option<Finding> {
    for observation in watched(stream, leases) {
        let revision = observation.view.revision;
        let span = spans.iter().find(|span| {
            let last = span
                .received_revisions
                .last()
                .copied()
                .unwrap_or(span.after);
            span.after < revision && revision <= last
        });
        if let Some(span) = span.filter(|span| !span.received_revisions.contains(&revision)) {
            let what = format!(
                "{} watched {} and did not receive revision {revision}",
                stream.client, observation.view.lease
            );
            return Some((what, vec![span.begin, observation.evidence, span.end]));
        }
    }
    None
}

/// A watcher that had time to catch up has received everything that any client has seen.
fn reaches_the_end(
    stream: &Stream,
    spans: &[Span],
    leases: &BTreeMap<&str, Lease<'_>>,
) -> Option<Finding> {
    let (at, Received::End) = stream.received.last()? else {
        return None;
    };
    let span = spans.last()?;
    let last = span
        .received_revisions
        .last()
        .copied()
        .unwrap_or(span.after);
    let newest = watched(stream, leases).filter(|observation| observation.at + CATCHING_UP < *at);
    let newest = newest.max_by_key(|observation| observation.view.revision)?;
    if newest.view.revision <= last {
        return None;
    }
    let what = format!(
        "{} watched {} up to revision {last} and never received revision {}",
        stream.client, newest.view.lease, newest.view.revision
    );
    Some((what, vec![span.begin, newest.evidence]))
}

/// The longest time for an event to arrive without faults.
const CATCHING_UP: std::time::Duration = std::time::Duration::from_secs(1);

/// Whether a renewal may have made this revision: a renewal with another duration does.
fn may_be_a_renewals(lease: &Lease<'_>, observation: &Observation<'_>) -> bool {
    let holder = observation.view.holder.as_deref().unwrap_or_default();
    lease.ops_of(holder).any(|(_, op)| {
        let is_for_another = matches!(
            op.ask,
            Ask::Renew {
                duration_ms: Some(_),
                ..
            }
        );
        is_for_another && op.sent < observation.at
    })
}

/// The observations that this watcher must have received.
fn watched<'s>(
    stream: &'s Stream,
    leases: &'s BTreeMap<&str, Lease<'s>>,
) -> impl Iterator<Item = &'s Observation<'s>> {
    let is_watched = |name: &str| stream.lease.as_deref().is_none_or(|lease| lease == name);
    let leases = leases.values().filter(move |lease| is_watched(lease.name));
    leases.flat_map(|lease| {
        let observations = lease.observations.iter();
        observations.filter(|observation| stream.renewed || !may_be_a_renewals(lease, observation))
    })
}

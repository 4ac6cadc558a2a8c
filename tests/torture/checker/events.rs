//! A stream tells every change once and in order, leaves nothing out but by a reset, and tells no secret.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Lease, Place, Sight};
use crate::history::{Ask, Heard, History, Stream};

/// What was told without a gap: after this revision, these.
struct Span {
    after: u64,
    told: BTreeSet<u64>,
    begin: Place,
    end: Place,
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

/// Each block is an event, of what is watched, without a lease id.
fn blocks(stream: &Stream, number: usize) -> Option<Finding> {
    let mut heard = stream.heard.iter().enumerate();
    heard.find_map(|(index, (_, heard))| {
        let what = match heard {
            Heard::Strange(text) => format!("a stream told {text}"),
            Heard::Event {
                has_lease_id: true, ..
            } => "an event has a lease id".into(),
            Heard::Event { id, event, .. } => {
                let is_watched = |lease: &String| *lease == event.view.lease;
                let is_other = id.is_some_and(|id| id != event.view.revision);
                if is_other || !stream.lease.as_ref().is_none_or(is_watched) {
                    format!(
                        "event {id:?} is of revision {} of {}",
                        event.view.revision, event.view.lease
                    )
                } else {
                    return None;
                }
            }
            _ => return None,
        };
        Some((what, vec![Place::Heard(number, index)]))
    })
}

/// Revisions only grow, over all connections.
fn order(stream: &Stream, number: usize) -> Option<Finding> {
    let mut last = (0, Place::Heard(number, 0));
    for (index, (_, heard)) in stream.heard.iter().enumerate() {
        let place = Place::Heard(number, index);
        match heard {
            Heard::Event { id: Some(id), .. } if *id <= last.0 => {
                let what = format!("a stream told revision {id} after revision {}", last.0);
                return Some((what, vec![last.1, place]));
            }
            Heard::Event { id: Some(id), .. } | Heard::Reset(id) => last = (*id, place),
            _ => {}
        }
    }
    None
}

fn spans(stream: &Stream, number: usize) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (index, (_, heard)) in stream.heard.iter().enumerate() {
        let place = Place::Heard(number, index);
        match heard {
            Heard::Reset(after) => spans.push(Span {
                after: *after,
                told: BTreeSet::new(),
                begin: place,
                end: place,
            }),
            Heard::Event { id: Some(id), .. } => {
                if let Some(span) = spans.last_mut() {
                    span.told.insert(*id);
                    span.end = place;
                }
            }
            _ => {}
        }
    }
    spans
}

/// Every revision that anybody was shown, and that falls into what was told without a gap, was told.
fn complete(
    stream: &Stream,
    spans: &[Span],
    leases: &BTreeMap<&str, Lease<'_>>,
) -> Option<Finding> {
    for sight in watched(stream, leases) {
        let revision = sight.view.revision;
        let span = spans.iter().find(|span| {
            let last = span.told.last().copied().unwrap_or(span.after);
            span.after < revision && revision <= last
        });
        if let Some(span) = span.filter(|span| !span.told.contains(&revision)) {
            let what = format!(
                "{} followed the events of {} and was not told of revision {revision}",
                stream.client, sight.view.lease
            );
            return Some((what, vec![span.begin, sight.place, span.end]));
        }
    }
    None
}

/// A reader that was given time to catch up was told of everything that anybody was shown.
fn reaches_the_end(
    stream: &Stream,
    spans: &[Span],
    leases: &BTreeMap<&str, Lease<'_>>,
) -> Option<Finding> {
    let (at, Heard::End) = stream.heard.last()? else {
        return None;
    };
    let span = spans.last()?;
    let last = span.told.last().copied().unwrap_or(span.after);
    let newest = watched(stream, leases).filter(|sight| sight.at + CATCHING_UP < *at);
    let newest = newest.max_by_key(|sight| sight.view.revision)?;
    if newest.view.revision <= last {
        return None;
    }
    let what = format!(
        "{} followed the events of {} up to revision {last} and was never told of revision {}",
        stream.client, newest.view.lease, newest.view.revision
    );
    Some((what, vec![span.begin, newest.place]))
}

/// How long an event may take to arrive when all is well.
const CATCHING_UP: std::time::Duration = std::time::Duration::from_secs(1);

/// Whether a renewal may have made this revision: one for another duration does.
fn may_be_a_renewals(lease: &Lease<'_>, sight: &Sight<'_>) -> bool {
    let holder = sight.view.holder.as_deref().unwrap_or_default();
    lease.ops_of(holder).any(|(_, op)| {
        let is_for_another = matches!(
            op.ask,
            Ask::Renew {
                duration_ms: Some(_),
                ..
            }
        );
        is_for_another && op.sent < sight.at
    })
}

/// What such a reader is told of.
fn watched<'s>(
    stream: &'s Stream,
    leases: &'s BTreeMap<&str, Lease<'s>>,
) -> impl Iterator<Item = &'s Sight<'s>> {
    let is_watched = |name: &str| stream.lease.as_deref().is_none_or(|lease| lease == name);
    let leases = leases.values().filter(move |lease| is_watched(lease.name));
    leases.flat_map(|lease| {
        let sights = lease.sights.iter();
        sights.filter(|sight| stream.renewed || !may_be_a_renewals(lease, sight))
    })
}

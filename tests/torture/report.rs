//! The report of a run, for people and for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::{Value, json};
use tenure_core::Instant;
use tenure_core::wire::LeaseView;

use crate::checker::{Evidence, Violation};
use crate::faults::Fault;
use crate::history::{Answer, Ask, History, Op, Outcome as Came, Received};
use crate::round::{Outcome, elapsed_ms};

/// The totals of all rounds of a run.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    rounds: u64,
    ops: u64,
    unanswered: u64,
    refused: u64,
    grants: u64,
    events: u64,
    resets: u64,
    /// Reads that were refused because the disk was full.
    reads_refused: u64,
    faults: BTreeMap<Fault, u64>,
    skipped: BTreeMap<Fault, String>,
}

impl Summary {
    /// Whether the store granted a lease in any round.
    pub(crate) const fn has_grants(&self) -> bool {
        self.grants > 0
    }

    /// Adds the numbers of this round.
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.rounds += 1;
        let mut epochs = BTreeSet::new();
        for op in &outcome.history.ops {
            self.ops += 1;
            match op.answered() {
                None => self.unanswered += 1,
                Some((_, Answer::Refused(problem))) => {
                    self.refused += 1;
                    let is_read = matches!(op.ask, Ask::View | Ask::List | Ask::Poll { .. });
                    self.reads_refused += u64::from(is_read && problem.status == 507);
                }
                Some((_, Answer::View(view))) if matches!(op.ask, Ask::Acquire { .. }) => {
                    epochs.insert((view.lease.clone(), view.epoch));
                }
                Some(_) => {}
            }
        }
        self.grants += epochs.len() as u64;
        for (_, received) in outcome.history.streams.iter().flat_map(|one| &one.received) {
            self.events += u64::from(matches!(received, Received::Event { .. }));
            self.resets += u64::from(matches!(received, Received::Reset(_)));
        }
        for (fault, count) in &outcome.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        self.skipped.extend(outcome.skipped.iter().cloned());
    }

    pub(crate) fn text(&self, seed: u64, seconds: f64) -> String {
        let faults = self.faults.iter();
        let faults: Vec<_> = faults
            .map(|(fault, n)| format!("{} {n}", fault.name()))
            .collect();
        let mut text = format!(
            "seed {seed}: {} rounds in {seconds:.0} s\n\
             {} operations ({} unanswered, {} refused), {} grants, {} events, {} resets\n\
             faults: {}\n",
            self.rounds,
            self.ops,
            self.unanswered,
            self.refused,
            self.grants,
            self.events,
            self.resets,
            faults.join(", "),
        );
        if self.reads_refused > 0 {
            let _ = writeln!(text, "{} reads were answered 507", self.reads_refused);
        }
        for (fault, why) in &self.skipped {
            let _ = writeln!(text, "SKIPPED {}: {why}", fault.name());
        }
        text
    }

    pub(crate) fn json(&self, seed: u64, seconds: f64, violated: Option<&Outcome>) -> Value {
        let named = |(fault, count): (&Fault, &u64)| (fault.name(), json!(count));
        let skipped = self.skipped.iter();
        let skipped = skipped.map(|(fault, why)| (fault.name(), json!(why)));
        let violations = violated.map(|outcome| {
            let violations = outcome.violations.iter().map(|one| {
                let (invariant, lease, what) = (one.invariant, &one.lease, &one.what);
                json!({"invariant": invariant, "lease": lease, "what": what})
            });
            json!({
                "round": outcome.round,
                "folder": outcome.folder,
                "violations": violations.collect::<Vec<_>>(),
            })
        });
        json!({
            "seed": seed, "seconds": seconds, "rounds": self.rounds, "operations": self.ops,
            "unanswered": self.unanswered, "refused": self.refused, "grants": self.grants,
            "events": self.events, "resets": self.resets, "reads_refused": self.reads_refused,
            "faults": self.faults.iter().map(named).collect::<serde_json::Map<_, _>>(),
            "skipped": skipped.collect::<serde_json::Map<_, _>>(),
            "violated": violations,
        })
    }
}

/// A description of the violation, with the operations on its lease that show it, in the order of
/// sending.
pub(crate) fn trace(history: &History, violation: &Violation) -> String {
    let lease = &violation.lease;
    let mut text = format!("{} {lease}: {}\n", violation.invariant, violation.what);
    let spans = violation.evidence.iter().map(|item| span(history, *item));
    let Some((from, until)) = spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    else {
        return text;
    };
    let is_named = |item| violation.evidence.contains(&item);
    let involved: BTreeSet<&str> = violation
        .evidence
        .iter()
        .flat_map(|item| holders(history, *item))
        .collect();
    let mut lines = Vec::new();
    for (number, op) in history.ops.iter().enumerate() {
        let is_named = is_named(Evidence::Op(number));
        let is_theirs = op
            .holder
            .as_deref()
            .is_some_and(|holder| involved.contains(holder));
        let is_about = op.lease == *lease && op.sent <= until;
        let may_matter = op.refused().is_none() && op.ask.may_end_another() && op.sent >= from;
        if is_named || is_about && (is_theirs || may_matter) {
            let named = if is_named { "=>" } else { "  " };
            lines.push((op.sent, format!("{named} {}", line(history, op))));
        }
    }
    for item in &violation.evidence {
        if let Evidence::Received(stream, index) = item {
            let stream = &history.streams[*stream];
            let (at, received) = &stream.received[*index];
            let ms = elapsed_ms(history, *at);
            let received = describe_event(received);
            lines.push((
                *at,
                format!(
                    "=> {ms:>10.2}             {:<6} received {received}",
                    stream.client
                ),
            ));
        }
    }
    let begin = lines.iter().map(|(at, _)| *at).min().unwrap_or(from);
    for (at, what) in &history.faults {
        if begin <= *at && *at <= until {
            lines.push((
                *at,
                format!("   {:>10.2}             ({what})", elapsed_ms(history, *at)),
            ));
        }
    }
    lines.sort();
    text.push_str("   sent at ms  answer after  client\n");
    for (_, line) in lines {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// All operations of a round, for further analysis.
pub(crate) fn all(history: &History) -> String {
    let mut lines: Vec<_> = history
        .ops
        .iter()
        .map(|op| (op.sent, line(history, op)))
        .collect();
    for stream in &history.streams {
        lines.extend(stream.received.iter().map(|(at, received)| {
            let ms = elapsed_ms(history, *at);
            let line = format!(
                "{ms:>10.2}             {:<6} received {}",
                stream.client,
                describe_event(received)
            );
            (*at, line)
        }));
    }
    lines.extend(history.faults.iter().map(|(at, what)| {
        let ms = elapsed_ms(history, *at);
        (*at, format!("{ms:>10.2}             ({what})"))
    }));
    lines.sort();
    lines
        .into_iter()
        .fold(String::new(), |text, (_, line)| text + &line + "\n")
}

fn line(history: &History, op: &Op) -> String {
    let (at, came) = match &op.outcome {
        Came::Unknown { at, why } => (*at, (*why).to_owned()),
        Came::Answered { at, answer } => (*at, describe_answer(answer)),
    };
    let of = op.holder.as_deref().map(|holder| format!(" for {holder}"));
    format!(
        "{:>10.2} {:>10.2}  {:<6} {} {}{} as {} over {} -> {came}",
        elapsed_ms(history, op.sent),
        at.since(op.sent).as_secs_f64() * 1e3,
        op.client,
        op.lease,
        op.ask,
        of.unwrap_or_default(),
        op.principal,
        op.connection,
    )
}

fn describe_answer(answer: &Answer) -> String {
    match answer {
        Answer::View(view) => describe_view(view),
        Answer::List(list) => format!("{} leases", list.leases.len()),
        Answer::Terms(terms) => {
            let terms = terms.iter().map(|term| {
                let end = term
                    .end
                    .map_or_else(|| "running".into(), |end| format!("{end:?}"));
                format!("{} {} {end}", term.epoch, term.holder)
            });
            terms.collect::<Vec<_>>().join(" | ")
        }
        Answer::Verified { current, epoch } => format!("current: {current}, epoch {epoch:?}"),
        Answer::Deleted => "deleted".into(),
        Answer::SignedIn(_) => "a session".into(),
        Answer::Refused(problem) => format!("{} {:?}", problem.status, problem.code),
        Answer::Unexpected { status, body } => format!("{status} {body}"),
    }
}

fn describe_view(view: &LeaseView) -> String {
    let state = format!("{:?}", view.state).to_lowercase();
    let revision = view.revision;
    match (&view.holder, view.epoch) {
        (Some(holder), Some(epoch)) => {
            let left = view.remaining_ms.unwrap_or_default();
            format!("{state} by {holder} under {epoch}, {left} ms left, revision {revision}")
        }
        _ => format!("{state}, revision {revision}"),
    }
}

fn describe_event(received: &Received) -> String {
    match received {
        Received::Opened(after, _) => format!("a stream after {after:?}"),
        Received::Reset(revision) => format!("a reset at revision {revision}"),
        Received::Event { kind, event, .. } => {
            let (lease, describe_view) = (&event.view.lease, describe_view(&event.view));
            format!("{kind} of {lease}: {describe_view}")
        }
        Received::Unexpected(text) => text.clone(),
        Received::End => "end".into(),
    }
}

fn span(history: &History, item: Evidence) -> (Instant, Instant) {
    match item {
        Evidence::Op(number) => {
            let op = &history.ops[number];
            let (Came::Unknown { at, .. } | Came::Answered { at, .. }) = op.outcome;
            (op.sent, at)
        }
        Evidence::Received(stream, index) => {
            let at = history.streams[stream].received[index].0;
            (at, at)
        }
    }
}

fn holders(history: &History, item: Evidence) -> Vec<&str> {
    match item {
        Evidence::Op(number) => {
            let op = &history.ops[number];
            let describe_view = op.view().and_then(|(_, view)| view.holder.as_deref());
            op.holder
                .as_deref()
                .into_iter()
                .chain(describe_view)
                .collect()
        }
        Evidence::Received(stream, index) => match &history.streams[stream].received[index].1 {
            Received::Event { event, .. } => event.view.holder.as_deref().into_iter().collect(),
            _ => Vec::new(),
        },
    }
}

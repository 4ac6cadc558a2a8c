//! The summary, in a few sentences.

use super::Report;
use super::page::escape;
use super::table::secs;
use crate::measure::{Measurement, gain_of_fallback};

/// Returns a list of sentences. A sentence without a measurement is omitted.
pub(super) fn summary(report: &Report) -> String {
    let sentences = [
        failover(report),
        overlap(report),
        refused(report),
        none_at_end(report),
        floods(report),
        at_rest(report),
        gain_of_fallback(&report.rows).map(|gain| format!("<b>Fallback</b>: {}", escape(&gain))),
    ];
    let items = sentences.into_iter().flatten();
    items.map(|it| format!("<li>{it}</li>\n")).collect()
}

/// Describes the time without a leader in the failover scenario, shortest first.
fn failover(report: &Report) -> Option<String> {
    let scenario = report.failover()?;
    let rows = report.of_scenario(scenario).into_iter().map(|(row, _)| row);
    let mut led: Vec<&Measurement> = rows.filter(|row| row.never_led < row.seeds).collect();
    led.sort_by(|a, b| a.without_leader.median.total_cmp(&b.without_leader.median));
    let times = led.iter().map(|row| {
        let times = row.without_leader;
        let (median, max) = (
            row.gap_text(times.median, " s"),
            row.gap_text(times.max, " s"),
        );
        format!("{} {median} ({max})", name(&row.contestant))
    });
    let times = list(times, ", ")?;
    let about = escape(&report.about_scenario(scenario));
    Some(format!(
        "<b>Time without a leader</b> when {about}, median (maximum) of all runs: {times}."
    ))
}

/// Describes which contestants had an overlap of two tasks, and its duration.
fn overlap(report: &Report) -> Option<String> {
    let (never, did) = sorted(report, |row| row.runs_with_overlap > 0);
    let describe = |did: &[(&str, Vec<&Measurement>)]| {
        worst(
            did,
            |row| row.overlap.max,
            |row| {
                let scenario = escape(&row.scenario);
                format!("at most {} s in {scenario}", secs(row.overlap.max))
            },
        )
    };
    let promises = |it: &(&str, Vec<&Measurement>)| it.1.iter().all(|row| row.promises_one_leader);
    let (refused, led): (Vec<_>, Vec<_>) = did.into_iter().partition(promises);
    let led = describe(&led);
    let refused = describe(&refused).map_or_else(String::new, |refused| {
        format!(
            " The task of an earlier leader ran on for a moment after a freeze, and the receiver refuses its \
             writes by their epoch: {refused}."
        )
    });
    let never = match (never.is_empty(), never.len() == report.contestants.len()) {
        (true, _) | (_, true) => String::new(),
        _ => format!(" None with {}.", names(&never)),
    };
    let led = led.unwrap_or_else(|| "None".into());
    Some(format!(
        "<b>Two leaders at once</b>: {led}.{refused}{never}"
    ))
}

/// Describes the writes that receivers refused because of their epochs.
fn refused(report: &Report) -> Option<String> {
    let (_, did) = sorted(report, |row| row.writes_refused > 0);
    let did = did.into_iter().map(|(contestant, rows)| {
        let refused: u64 = rows.iter().map(|row| row.writes_refused).sum();
        format!("{} {refused}", name(contestant))
    });
    let did = list(did, ", ")?;
    Some(format!(
        "<b>Stale writes</b> of earlier leaders that the receiver refused by their epochs, in all \
         runs: {did}. Strategies without epochs cannot refuse any."
    ))
}

/// Describes the contestants that did not recover. Runs that flooded count.
fn none_at_end(report: &Report) -> Option<String> {
    let (_, did) = sorted(report, |row| row.without_leader_at_end > 0);
    let did = worst(
        &did,
        |row| row.without_leader_at_end as f64,
        |row| {
            let (ends, seeds) = (row.without_leader_at_end, row.seeds);
            let scenario = escape(&row.scenario);
            format!("most often in {scenario} ({ends} of {seeds} runs)")
        },
    );
    Some(match did {
        None => "<b>No leader at the end</b> of a run: never.".into(),
        Some(did) => format!("<b>No leader at the end</b> of some runs: {did}."),
    })
}

/// Describes the contestants whose runs were ended because of too many messages.
fn floods(report: &Report) -> Option<String> {
    let (_, did) = sorted(report, |row| row.floods > 0);
    let did = worst(
        &did,
        |row| row.floods as f64,
        |row| {
            let (floods, seeds) = (row.floods, row.seeds);
            let scenario = escape(&row.scenario);
            format!("most often in {scenario} ({floods} of {seeds} runs)")
        },
    )?;
    Some(format!(
        "<b>Floods</b>, runs that were ended because messages only caused more messages: {did}."
    ))
}

/// Describes the cost at rest.
fn at_rest(report: &Report) -> Option<String> {
    let scenario = report.scenarios.iter().find(|it| !it.needs_store())?;
    let rows = report.of_scenario(scenario).into_iter();
    let mut rows: Vec<&Measurement> = rows.map(|(row, _)| row).collect();
    rows.sort_by(|a, b| a.messages_at_rest.total_cmp(&b.messages_at_rest));
    let costs = rows.iter().map(|row| {
        let (name, kilo) = (name(&row.contestant), row.bytes_at_rest / 1_000.0);
        let cpu = row.cpu_at_rest;
        let cpu = cpu.map_or_else(String::new, |percent| {
            format!("; {percent:.1} % of a processor")
        });
        format!("{name} {:.0} ({kilo:.1} kB{cpu})", row.messages_at_rest)
    });
    let costs = list(costs, ", ")?;
    Some(format!("<b>Messages per minute at rest</b>: {costs}."))
}

/// Returns the contestants without a row that matches, and the others with those rows.
fn sorted(
    report: &Report,
    applies: fn(&Measurement) -> bool,
) -> (Vec<&str>, Vec<(&str, Vec<&Measurement>)>) {
    let (mut never, mut did) = (Vec::new(), Vec::new());
    for contestant in &report.contestants {
        let rows = report.rows.iter();
        let rows = rows.filter(|row| row.contestant == *contestant);
        let rows: Vec<&Measurement> = rows.filter(|row| applies(row)).collect();
        if rows.is_empty() {
            never.push(&contestant[..]);
        } else {
            did.push((&contestant[..], rows));
        }
    }
    (never, did)
}

/// Describes the number of scenarios with rows for each contestant, and the worst of them.
fn worst(
    of: &[(&str, Vec<&Measurement>)],
    by: fn(&Measurement) -> f64,
    describe: fn(&Measurement) -> String,
) -> Option<String> {
    let each = of.iter().filter_map(|(contestant, rows)| {
        let worst = rows.iter().max_by(|a, b| by(a).total_cmp(&by(b)))?;
        let s = if rows.len() == 1 { "" } else { "s" };
        let (name, count) = (name(contestant), rows.len());
        Some(format!(
            "{name} in {count} scenario{s}, {}",
            describe(worst)
        ))
    });
    list(each, "; ")
}

/// Joins the parts; `None` if there are none.
fn list(parts: impl Iterator<Item = String>, separator: &str) -> Option<String> {
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(separator))
}

fn names(all: &[&str]) -> String {
    let all: Vec<String> = all.iter().map(|it| name(it)).collect();
    all.join(", ")
}

fn name(of: &str) -> String {
    format!("<code>{}</code>", escape(of))
}

//! The figures as tables.

use std::fmt::Write;

use super::Report;
use super::page::escape;
use crate::measure::{ENOUGH_FOR_P99, Measurement};

/// Returns a table of the times without a leader, with a row for each scenario and a column for
/// each contestant.
pub(super) fn overview(report: &Report) -> String {
    let contestants = &report.contestants;
    let names = contestants
        .iter()
        .map(|it| format!("<th>{}</th>", escape(it)));
    let mut table = format!("<tr><th>scenario</th>{}</tr>\n", names.collect::<String>());
    for scenario in &report.scenarios {
        let cells = contestants.iter().map(|it| match report.row(it, scenario) {
            Some(row) => overview_cell(row),
            None => "<td></td>".into(),
        });
        let (name, cells) = (scenario.name, cells.collect::<String>());
        let _ = writeln!(
            table,
            "<tr><th><a href=\"#{name}\" title=\"{}\">{name}</a></th>{cells}</tr>",
            escape(&report.about_scenario(scenario))
        );
    }
    scrolling(&table)
}

fn overview_cell(row: &Measurement) -> String {
    if row.never_led == row.seeds {
        return "<td class=\"bad\">never led</td>".into();
    }
    let times = row.without_leader;
    let (median, max) = (row.gap_text(times.median, ""), row.gap_text(times.max, ""));
    let mut text = match times {
        _ if times.median.is_infinite() => format!("<strong>{median}</strong>"),
        _ if times.max.is_infinite() => format!("{median} <strong>{max}</strong>"),
        _ => format!("{median} <small>{max}</small>"),
    };
    if row.runs_with_overlap > 0 {
        let overlap = secs(row.overlap.max);
        let _ = match row.promises_one_leader {
            true => write!(text, "<br><small>overlap: {overlap} s, refused</small>"),
            false => write!(text, "<br><em>overlap: {overlap} s</em>"),
        };
    }
    if row.without_leader_at_end > 0 {
        let _ = write!(
            text,
            "<br><strong>no leader at the end: {}</strong>",
            row.without_leader_at_end
        );
    }
    format!("<td>{text}</td>")
}

const P99: &str = "no leader: p99";
const CPU: &str = "CPU at rest, %";

const COLUMNS: &[&str] = &[
    "scenario",
    "contestant",
    "detection time, s",
    "runs",
    "never led",
    "first leader, s",
    "no leader: median, s",
    P99,
    "no leader: max",
    "overlap: runs",
    "overlap: max, s",
    "writes taken",
    "stale, refused",
    "flaps",
    "terms",
    "election messages/min",
    "detection messages/min",
    "kB/min",
    "messages/election",
    "kB/election",
    "messages/min at rest",
    "kB/min at rest",
    CPU,
    "floods",
    "no leader at the end",
];

/// Returns a table with every figure of every row.
pub(super) fn all(report: &Report) -> String {
    let has_p99 = report.rows.iter().any(|it| it.seeds >= ENOUGH_FOR_P99);
    let has_cpu = report.rows.iter().any(|it| it.cpu_at_rest.is_some());
    let is_shown = |name: &str| (name != P99 || has_p99) && (name != CPU || has_cpu);
    let names = COLUMNS.iter().filter(|name| is_shown(name));
    let names = names.map(|name| format!("<th>{name}</th>"));
    let mut table = format!("<tr>{}</tr>\n", names.collect::<String>());
    for row in &report.rows {
        let cells = [
            row.detection_time
                .map_or_else(String::new, |it| it.to_string()),
            row.seeds.to_string(),
            row.never_led.to_string(),
            secs(row.first_leader.median),
            row.gap_text(row.without_leader.median, ""),
            row.gap_text(row.without_leader.p99, ""),
            row.gap_text(row.without_leader.max, ""),
            row.runs_with_overlap.to_string(),
            secs(row.overlap.max),
            format!("{:.0}", row.writes_taken),
            row.writes_refused.to_string(),
            format!("{:.1}", row.flaps),
            format!("{:.1}", row.terms),
            format!("{:.0}", row.election_messages_per_minute),
            format!("{:.0}", row.detection_messages_per_minute),
            format!("{:.1}", row.bytes_per_minute / 1_000.0),
            format!("{:.1}", row.messages_per_election),
            format!("{:.1}", row.bytes_per_election / 1_000.0),
            format!("{:.0}", row.messages_at_rest),
            format!("{:.1}", row.bytes_at_rest / 1_000.0),
            row.cpu_at_rest
                .map_or_else(String::new, |it| format!("{it:.1}")),
            row.floods.to_string(),
            row.without_leader_at_end.to_string(),
        ];
        // The first two columns are the names of the row.
        let cells = COLUMNS[2..].iter().zip(cells);
        let cells = cells.filter(|(name, _)| is_shown(name));
        let cells: String = cells.map(|(_, cell)| format!("<td>{cell}</td>")).collect();
        let (scenario, contestant) = (escape(&row.scenario), escape(&row.contestant));
        let _ = writeln!(
            table,
            "<tr><th>{scenario}</th><th>{contestant}</th>{cells}</tr>"
        );
    }
    scrolling(&table)
}

pub(super) fn scrolling(table: &str) -> String {
    format!("<div class=\"table\" tabindex=\"0\"><table>\n{table}</table></div>")
}

pub(super) fn secs(secs: f64) -> String {
    format!("{secs:.2}")
}

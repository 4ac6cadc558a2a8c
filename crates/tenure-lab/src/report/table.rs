//! The figures as tables.

use std::fmt::Write;

use super::Report;
use super::page::escape;
use crate::measure::{Measurement, columns};

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

/// Returns a table with every figure of every row.
pub(super) fn all(report: &Report) -> String {
    let columns = columns(&report.rows.iter().collect::<Vec<_>>());
    let names = columns
        .iter()
        .map(|(_, title, _)| format!("<th>{title}</th>"));
    let names: String = names.collect();
    let mut table = format!("<tr><th>scenario</th><th>contestant</th>{names}</tr>\n");
    for row in &report.rows {
        let cells = columns.iter().map(|it| format!("<td>{}</td>", (it.2)(row)));
        let cells: String = cells.collect();
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

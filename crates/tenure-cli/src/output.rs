//! Output on stdout: text, tables and JSON.

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::{Value, json};
use tenure::Timings;
use tenure_core::text;

/// A table for people and for `cut`: columns separated by two blanks, no lines.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// Prints a line, or JSON. It may have texts of other processes.
pub(crate) fn line(text: impl std::fmt::Display) -> io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    let text = text.to_string();
    let text = text::escape_document(&text);
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.map_err(|error| {
        let text = format!("cannot write to standard output: {error}");
        io::Error::new(error.kind(), text)
    })
}

/// Whether the reader of stdout is gone (`| head`). This ends a command without an error.
pub(crate) fn is_reader_gone(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Prints a table without trailing blanks.
pub(crate) fn print_table(table: &Table) -> anyhow::Result<()> {
    let text = table.to_string();
    // Every cell is padded by one blank.
    let lines = text
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    Ok(line(lines.collect::<Vec<_>>().join("\n"))?)
}

/// Prints one JSON document over several lines.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(line(serde_json::to_string_pretty(value)?)?)
}

/// The cell of a value that may be missing.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// Replaces unprintable characters: text from other processes must not control the terminal, hide
/// or reorder what is beside it, or add lines.
pub(crate) fn escape(text: &str) -> String {
    text::escape(text).into_owned()
}

/// Whole milliseconds, for JSON.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Timings and the values that follow from them, for JSON.
pub(crate) fn timings(timings: &Timings) -> Value {
    json!({
        "lease_duration_ms": millis(timings.lease_duration()),
        "renew_interval_ms": millis(timings.renew_interval()),
        "renew_deadline_ms": millis(timings.renew_deadline()),
        "stop_grace_ms": millis(timings.stop_grace()),
        "hard_stop_ms": millis(timings.hard_stop()),
        "worst_without_leader_ms": millis(timings.worst_without_leader()),
        "tolerated_drift_percent": tenths(timings.tolerated_drift_percent()),
    })
}

/// Rounded to tenths, for JSON.
pub(crate) fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

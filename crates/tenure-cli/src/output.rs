//! What commands print on stdout.

use std::io::{self, ErrorKind, Write};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

/// A table for people and for `cut`: columns by two spaces, no lines.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// Prints text and a line end. A reader that has gone (`| head`) is no failure.
pub(crate) fn line(text: impl std::fmt::Display) -> io::Result<()> {
    try_line(text).map(|_| ())
}

/// Prints text and a line end, and says whether anybody still reads.
pub(crate) fn try_line(text: impl std::fmt::Display) -> io::Result<bool> {
    let mut stdout = anstream::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Prints a table without the blanks at the ends of its lines.
pub(crate) fn print_table(table: &Table) -> io::Result<()> {
    let text = table.to_string();
    // Every cell is padded by one blank.
    let lines = text
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    line(lines.collect::<Vec<_>>().join("\n"))
}

/// Prints one JSON document, over several lines.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(line(serde_json::to_string_pretty(value)?)?)
}

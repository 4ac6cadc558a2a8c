//! Output on stdout: text, tables and JSON; and progress on stderr.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

/// A table for people and for `cut`: columns separated by two blanks, no lines.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// Prints a line, or JSON.
pub(crate) fn line(text: impl std::fmt::Display) -> io::Result<()> {
    writeln!(io::stdout(), "{text}")
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

/// Prints a table whose last column has sentences, which wrap.
pub(crate) fn print_table_of_sentences<const N: usize>(
    header: [&str; N],
    mut rows: Vec<[String; N]>,
) -> anyhow::Result<()> {
    let longest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.fold(header[column].len(), usize::max)
    };
    let before: usize = (0..N - 1).map(|column| longest(column) + 2).sum();
    let mut table = table(&header);
    for row in &mut rows {
        row[N - 1] = wrap(&row[N - 1], "", "", WIDTH.saturating_sub(before));
        table.add_row(row.iter());
    }
    print_table(&table)
}

/// The width at which sentences wrap, and which tables do not exceed without `--wide`.
const WIDTH: usize = 100;

/// Wraps a text at the words. The first line has the first indentation, and the others the second
/// one.
pub(crate) fn wrapped(text: &str, first: &str, others: &str) -> String {
    wrap(text, first, others, WIDTH)
}

fn wrap(text: &str, first: &str, others: &str, width: usize) -> String {
    let mut wrapped = first.to_owned();
    let mut length = first.len();
    let mut is_begin = true;
    for word in text.split(' ') {
        let more = word.chars().count();
        if !is_begin && length + 1 + more > width {
            wrapped.push('\n');
            wrapped.push_str(others);
            length = others.len();
        } else if !is_begin {
            wrapped.push(' ');
            length += 1;
        }
        wrapped.push_str(word);
        length += more;
        is_begin = false;
    }
    wrapped
}

/// A name of at most this many characters: of a longer one, such as a path, the end.
pub(crate) fn shortened(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name.into();
    }
    let tail = name.chars().skip(length - most + 1);
    std::iter::once('…').chain(tail).collect()
}

/// A number of things whose plural has an "s": "1 seed", "2 seeds".
pub(crate) fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// Wraps each line of a text.
pub(crate) fn wrapped_lines(text: &str) -> String {
    let lines = text.lines().map(|line| wrapped(line, "", ""));
    lines.collect::<Vec<_>>().join("\n")
}

/// Prints one JSON document over several lines.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(line(serde_json::to_string_pretty(value)?)?)
}

/// The cell of a value that may be missing.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// A progress bar on stderr; it shows nothing if stderr is not a terminal.
pub(crate) fn progress_bar(length: u64, unit: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}, {eta} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message(unit);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Prints rows as comma-separated values. A column is a field of the rows, or a field of a field
/// (`a_b`), and may have a unit at its end (`_s`, `_percent`).
pub(crate) fn csv(columns: &str, rows: &[impl Serialize]) -> anyhow::Result<()> {
    line(columns)?;
    for row in rows {
        let row = serde_json::to_value(row)?;
        let cells = columns.split(',').map(|column| csv_cell(&row, column));
        line(cells.collect::<Vec<_>>().join(","))?;
    }
    Ok(())
}

fn csv_cell(row: &Value, column: &str) -> String {
    let name = column.strip_suffix("_s");
    let name = name.or_else(|| column.strip_suffix("_percent"));
    let name = name.unwrap_or(column);
    let nested = name.rsplit_once('_').map(|(field, part)| &row[field][part]);
    let value = row.get(column).or_else(|| row.get(name)).or(nested);
    match value.unwrap_or(&Value::Null) {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Writes a file, in place of what it contains. It is not written through a link, which may be one
/// of another user.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true);
    let options = options.custom_flags(nix::libc::O_NOFOLLOW);
    options.open(path)?.write_all(content)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_sentence_wraps_and_keeps_all_its_words() {
        let sentence = "a bc def ".repeat(40);
        let text = wrapped(sentence.trim(), "    ", "  ");
        assert!(text.starts_with("    a") && text.contains("\n  "), "{text}");
        assert!(
            text.lines().count() > 3 && text.lines().all(|line| line.len() <= WIDTH),
            "{text}"
        );
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&text), words(&sentence));
    }

    #[test]
    fn a_long_name_shows_its_end() {
        assert_eq!(shortened("lease", 5), "lease");
        assert_eq!(shortened("/etc/mine.toml", 10), "…mine.toml");
    }

    #[test]
    fn a_cell_is_a_field_or_a_field_of_a_field() {
        let row = json!({"name": "a, \"b\"", "wait": {"max": 1.5}, "cpu": 2, "part_percent": null});
        for (column, cell) in [
            ("name", "\"a, \"\"b\"\"\""),
            ("wait_max_s", "1.5"),
            ("cpu_percent", "2"),
            ("part_percent", ""),
        ] {
            assert_eq!(csv_cell(&row, column), cell, "{column}");
        }
    }
}

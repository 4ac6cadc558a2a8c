//! The comparison as a page for people.

use std::fs;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;
use std::time::SystemTime;

use anyhow::Context;
use chrono::{DateTime, Utc};
use tenure_lab::measure::{Comparison, Measurement};
use tenure_lab::report::{Provenance, Report};

use crate::{exit, output};

/// The file for the page.
#[derive(Debug)]
pub(super) struct Page<'a>(&'a Path);

impl<'a> Page<'a> {
    /// Checks that the file can be written, before the long comparison.
    pub(super) fn new(file: &'a Path) -> anyhow::Result<Self> {
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let file_shown = file.display();
        let error = if file.is_dir() {
            format!("--report {file_shown}: this is a directory; name a file, such as report.html")
        } else if !folder.is_dir() {
            let folder = folder.display();
            format!("--report {file_shown}: there is no directory {folder}; create it first")
        } else {
            return Ok(Self(file));
        };
        Err(exit::bad_configuration(error))
    }

    pub(super) fn write_simulated(
        &self,
        comparison: &Comparison,
        rows: &[Measurement],
    ) -> anyhow::Result<()> {
        let timing = Report::timing_comparison(comparison);
        let runs = Report::runs(comparison) + timing.points();
        let bar = output::progress_bar(runs, "runs for the report");
        let mut report = Report::new(comparison, rows.to_vec(), || bar.inc(1));
        report.timing = timing.measure(|| bar.inc(1));
        bar.finish_and_clear();
        self.write(&report)
    }

    pub(super) fn write(&self, report: &Report) -> anyhow::Result<()> {
        self.write_html(&report.html(&made()))
    }

    pub(super) fn write_html(&self, html: &str) -> anyhow::Result<()> {
        let file = self.0.display();
        output::write_file(self.0, html.as_bytes())
            .with_context(|| format!("--report {file}: can't write the file"))?;
        // If stderr is closed, the file is still there.
        let _ = writeln!(io::stderr(), "report: {file} ({} kB)", html.len() / 1_000);
        Ok(())
    }
}

pub(super) fn made() -> Provenance {
    Provenance {
        by: command(),
        version: env!("CARGO_PKG_VERSION").into(),
        on: machine(),
        at: DateTime::<Utc>::from(SystemTime::now())
            .format("%Y-%m-%d %H:%M UTC")
            .to_string(),
    }
}

/// This command, quoted for a shell.
fn command() -> String {
    let arguments = std::env::args_os().skip(1);
    let quoted = arguments.map(|it| quoted(&it.to_string_lossy()));
    let words: Vec<String> = std::iter::once("tenure-lab".into()).chain(quoted).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./=:,+@%".contains(it);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The machine of the comparison, as far as the system reports it.
fn machine() -> String {
    let (system, kind) = (std::env::consts::OS, std::env::consts::ARCH);
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map(|it| it.trim_start_matches([' ', '\t', ':']).trim());
    let model = model.map_or_else(String::new, |model| format!(", {model}"));
    format!("{system} on {kind}, {processors} processors{model}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_quoted_for_a_shell() {
        assert_eq!(quoted("--seeds=0..20"), "--seeds=0..20");
        assert_eq!(quoted("my file's"), "'my file'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_file_that_can_not_be_written_is_refused_before_the_comparison() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = folder.path().join("none/report.html");
        assert!(Page::new(&missing).is_err() && Page::new(folder.path()).is_err());
        assert!(Page::new(&folder.path().join("report.html")).is_ok());
    }
}

//! The comparison as a page for people.

use std::fs;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use chrono::{DateTime, Utc};
use tenure_lab::measure::{Comparison, Measurement};
use tenure_lab::report::{Provenance, Report};

use super::bar;
use crate::exit::{BAD_CONFIGURATION, Failure};

/// The file that is to be written.
#[derive(Debug)]
pub(super) struct Page<'a>(&'a Path);

impl<'a> Page<'a> {
    /// Looks whether it can be written, before the long work that it is about.
    pub(super) fn new(file: &'a Path) -> Result<Self, Failure> {
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let file_shown = file.display();
        let wrong = if file.is_dir() {
            format!("--report {file_shown}: that is a folder; name a file, such as report.html")
        } else if !folder.is_dir() {
            let folder = folder.display();
            format!("--report {file_shown}: there is no folder {folder}; create it first")
        } else {
            return Ok(Self(file));
        };
        Err(Failure::new(BAD_CONFIGURATION, anyhow!(wrong)))
    }

    pub(super) fn write_simulated(
        &self,
        comparison: &Comparison,
        rows: &[Measurement],
    ) -> Result<(), Failure> {
        let bar = bar(Report::runs(comparison), "runs for the report");
        let report = Report::new(comparison, rows.to_vec(), || bar.inc(1));
        bar.finish_and_clear();
        self.write(&report)
    }

    pub(super) fn write(&self, report: &Report) -> Result<(), Failure> {
        let html = report.html(&made());
        let file = self.0.display();
        fs::write(self.0, &html).with_context(|| format!("--report {file}: can't write it"))?;
        // Without anybody who listens the file still is there.
        let _ = writeln!(
            anstream::stderr(),
            "report: {file} ({} kB)",
            html.len() / 1_000
        );
        Ok(())
    }
}

fn made() -> Provenance {
    Provenance {
        by: command(),
        version: env!("CARGO_PKG_VERSION").into(),
        on: machine(),
        at: DateTime::<Utc>::from(SystemTime::now())
            .format("%Y-%m-%d %H:%M UTC")
            .to_string(),
    }
}

/// This command, as a shell takes it.
fn command() -> String {
    let arguments = std::env::args_os().skip(1);
    let quoted = arguments.map(|it| quoted(&it.to_string_lossy()));
    let words: Vec<String> = std::iter::once("tenure".into()).chain(quoted).collect();
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

/// What it ran on, as far as the system tells.
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
    fn a_command_can_be_given_to_a_shell_again() {
        assert_eq!(quoted("--seeds=0..20"), "--seeds=0..20");
        assert_eq!(quoted("my file's"), "'my file'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_file_that_can_not_be_written_is_told_before_the_work() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = folder.path().join("none/report.html");
        assert!(Page::new(&missing).is_err() && Page::new(folder.path()).is_err());
        assert!(Page::new(&folder.path().join("report.html")).is_ok());
    }
}

//! Torture: a real store with real sockets and many clients, under random faults for any length of
//! time. A checker verifies all answers and events that the clients received.
//!
//! `docs/testing.md` describes how to run it and how to read its reports.

mod options;
mod round;

mod clients;
mod disk;
mod faults;
mod rights;
mod server;

mod checker;
mod history;
mod report;

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;

use options::Options;
use report::Summary;
use round::Outcome;

fn main() -> ExitCode {
    let options = Options::parse();
    let by_clock = || {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        now.as_secs()
    };
    let seed = options.seed.unwrap_or_else(by_clock);
    eprintln!("seed {seed}");
    match run(&options, seed) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(_)) => ExitCode::from(1),
        Err(why) => {
            eprintln!("the run cannot continue: {why}");
            ExitCode::from(2)
        }
    }
}

/// Runs rounds until the time is up or a round has a violation, and prints a summary. Returns the
/// round with a violation.
fn run(options: &Options, seed: u64) -> Result<Option<Outcome>, String> {
    let begin = Instant::now();
    let limit = Duration::from_secs_f64(options.minutes.max(0.0) * 60.0);
    let mut summary = Summary::default();
    let mut violated = None;
    let first = options.round.unwrap_or(0);
    for number in first.. {
        let outcome = round::run(options, seed, number)?;
        summary.add(&outcome);
        if outcome.violations.is_empty() {
            if !options.keep {
                let _ = fs::remove_dir_all(&outcome.folder);
            }
        } else {
            report_violations(&outcome);
            violated = Some(outcome);
        }
        if violated.is_some() || options.round.is_some() || begin.elapsed() >= limit {
            break;
        }
    }
    if violated.is_none() && !summary.has_grants() {
        return Err("no lease was granted, so nothing was checked".to_owned());
    }
    let seconds = begin.elapsed().as_secs_f64();
    if options.json {
        println!("{:#}", summary.json(seed, seconds, violated.as_ref()));
    } else {
        print!("{}", summary.text(seed, seconds));
        if violated.is_none() {
            println!("no violations");
        }
    }
    Ok(violated)
}

/// Reports the violations of a round, and writes them beside the store's data.
fn report_violations(outcome: &Outcome) {
    let traces = outcome.violations.iter();
    let traces = traces.map(|violation| report::trace(&outcome.history, violation));
    let traces = traces.collect::<Vec<_>>().join("\n");
    eprintln!("VIOLATION in round {}\n{traces}", outcome.round);
    let folder = &outcome.folder;
    let _ = fs::write(folder.join("trace.txt"), &traces);
    let _ = fs::write(folder.join("operations.txt"), report::all(&outcome.history));
    eprintln!(
        "the store's data and log, and all operations: {}",
        folder.display()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough for several faults.
    #[test]
    fn a_few_seconds_of_torture_find_no_violation() {
        let arguments = [
            "",
            "--minutes",
            "0",
            "--round-seconds",
            "5",
            "--clients",
            "24",
        ];
        let options = Options::parse_from(arguments);
        let violated = run(&options, 1).expect("a usable machine");
        assert!(violated.is_none());
    }
}

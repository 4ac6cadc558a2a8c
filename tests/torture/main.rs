//! Torture: a real store, real sockets, many clients, and faults at random, for as long as one likes; and a
//! checker of everything that the clients were told.
//!
//! `docs/testing.md` tells how to run it and how to read what it finds.

mod options;
mod round;

mod clients;
mod disk;
mod faults;
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
            eprintln!("the torture could not go on: {why}");
            ExitCode::from(2)
        }
    }
}

/// Does rounds until the time is up or something is wrong, and tells what came of it. Returns the round in
/// which something was wrong.
fn run(options: &Options, seed: u64) -> Result<Option<Outcome>, String> {
    let begin = Instant::now();
    let limit = Duration::from_secs_f64(options.minutes.max(0.0) * 60.0);
    let mut summary = Summary::default();
    let mut wrong = None;
    let first = options.round.unwrap_or(0);
    for number in first.. {
        let outcome = round::run(options, seed, number)?;
        summary.add(&outcome);
        if outcome.violations.is_empty() {
            if !options.keep {
                let _ = fs::remove_dir_all(&outcome.folder);
            }
        } else {
            tell(&outcome);
            wrong = Some(outcome);
        }
        if wrong.is_some() || options.round.is_some() || begin.elapsed() >= limit {
            break;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    if options.json {
        println!("{:#}", summary.json(seed, seconds, wrong.as_ref()));
    } else {
        print!("{}", summary.text(seed, seconds));
        if wrong.is_none() {
            println!("nothing was wrong");
        }
    }
    Ok(wrong)
}

/// Tells what was wrong in a round, and writes it down beside the store's data.
fn tell(outcome: &Outcome) {
    let traces = outcome.violations.iter();
    let traces = traces.map(|violation| report::trace(&outcome.history, violation));
    let traces = traces.collect::<Vec<_>>().join("\n");
    eprintln!("WRONG in round {}\n{traces}", outcome.round);
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

    /// Long enough for each kind of fault to be done once or twice.
    #[test]
    fn some_seconds_of_torture_find_nothing_wrong() {
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
        let wrong = run(&options, 1).expect("a machine that can be used");
        assert!(wrong.is_none());
    }
}

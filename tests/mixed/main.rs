//! Candidates of all kinds on one `Lease` of a real API server, under random faults for any length of
//! time. A judge checks all terms.
//!
//! `docs/testing.md` describes how to run it.

mod faults;
mod judge;
mod part;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Parser;

/// Runs candidates of several programs on one Lease of a real API server, under random faults, and
/// checks that no two of tenure lead at once, that epochs increase, and that each term has an end.
///
/// The seed determines the faults and their order. Exit code 1 means a violation, and 2 that the run
/// itself failed.
#[derive(Debug, Parser)]
#[command(name = "tenure-mixed")]
struct Options {
    /// Duration of the run, in minutes.
    #[arg(long, default_value_t = 25.0)]
    minutes: f64,

    /// Seed of all faults. Default: from the clock.
    #[arg(long)]
    seed: Option<u64>,

    /// Lease duration of all candidates, in seconds.
    #[arg(long, default_value_t = 15)]
    lease_seconds: u64,

    /// Folder for the ticks, the versions of the object, and the logs. Default: none is kept.
    #[arg(long)]
    dir: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let by_clock = || {
        SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_secs()
    };
    let seed = options.seed.unwrap_or_else(by_clock);
    println!("seed {seed}");
    let time = Duration::from_secs_f64(options.minutes.max(0.0) * 60.0);
    let lease = Duration::from_secs(options.lease_seconds);
    let Some(record) = part::run(seed, time, lease, options.dir.as_deref()) else {
        eprintln!("the run needs all servers: tests/servers/build");
        return ExitCode::from(2);
    };
    let verdict = judge::judge(&record);
    print!("{verdict}");
    ExitCode::from(u8::from(!verdict.violations.is_empty()))
}

//! `tenure demo`: leader election in a minute.
//!
//! Real processes, sockets and disks. All figures come from the fenced table that the workers write
//! to, not from reports of the workers.

mod runner;

mod fleet;
mod interrupt;
mod worker;

mod measure;
mod report;
mod work_log;

mod job;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::exit;
use fleet::DemoStrategy;

pub(crate) use worker::DemoWorker;

/// Watch leaders die, freeze and stop, and others take over
///
/// Starts a store and workers as processes, in a temporary directory. The leader rolls up log files
/// into a fenced table. The demo kills, freezes and stops leaders, and measures at the table how
/// long there was no leader and whether two leaders overlapped.
///
/// With "--strategy bully" there is no store: the workers elect a leader among themselves.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Election strategy: in a store, or among peers
    #[arg(long, value_enum, default_value_t = DemoStrategy::Lease)]
    strategy: DemoStrategy,
    /// Number of workers; among peers at least 3 [default: 3, among peers 5]
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=20))]
    workers: Option<u32>,
    /// Approximate duration
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(10..=3600))]
    seconds: u64,
    /// Print one JSON object per line; the last one is the summary
    #[arg(long)]
    json: bool,
}

impl Demo {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let default = match (self.strategy, self.workers) {
            (DemoStrategy::Bully, Some(2)) => {
                return Err(exit::bad_configuration(
                    "--workers 2 is too few with --strategy bully: one of two members is not a majority; use at \
                     least 3",
                ));
            }
            (DemoStrategy::Bully, _) => 5,
            (DemoStrategy::Lease, _) => 3,
        };
        let workers = self.workers.unwrap_or(default);
        let duration = Duration::from_secs(self.seconds);
        let kept = runner::run(self.strategy, workers, duration, self.json)?;
        Ok(exit::success_if(kept))
    }
}

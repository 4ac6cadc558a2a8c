//! `tenure demo`: a newcomer's first minute.
//!
//! Real processes, real sockets, a real disk; and what happened is read from what the workers did,
//! at the fenced table they wrote to, not from what they say of themselves.

mod script;

mod fleet;
mod worker;

mod measure;
mod passes;
mod report;

#[path = "../../../../examples/log_rollup/job.rs"]
mod job;

use std::process::ExitCode;

use crate::cli::{Demo, DemoStrategy};
use crate::exit::{BAD_CONFIGURATION, Failure};
use crate::processes;

pub(crate) use worker::worker;

pub(crate) fn demo(arguments: &Demo) -> Result<ExitCode, Failure> {
    if arguments.strategy == DemoStrategy::Bully && arguments.workers == Some(2) {
        let error = anyhow::anyhow!(
            "--workers 2 is too few with --strategy bully: when one of two is gone the other can't \
             lead; at least 3"
        );
        return Err(Failure::new(BAD_CONFIGURATION, error));
    }
    match script::play(arguments) {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(error) => Err(processes::failure(error)),
    }
}

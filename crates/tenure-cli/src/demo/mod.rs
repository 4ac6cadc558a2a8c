//! `tenure demo`: a newcomer's first minute.
//!
//! Real processes, real sockets, a real disk; and what happened is read from what the workers did,
//! at the fenced table they wrote to, not from what they say of themselves.

mod script;

mod fleet;
mod network;
mod process;
mod worker;

mod measure;
mod passes;
mod report;

mod interrupt;

#[path = "../../../../examples/log_rollup/job.rs"]
mod job;

use std::process::ExitCode;

use crate::cli::{Demo, DemoStrategy};
use crate::exit::{BAD_CONFIGURATION, Failure};
use interrupt::Interrupted;

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
        Err(error) => {
            let signal = error.downcast_ref().map(|Interrupted(signal)| *signal);
            let code = signal.and_then(|signal| u8::try_from(128 + signal).ok());
            Err(Failure::new(code.unwrap_or(1), error))
        }
    }
}

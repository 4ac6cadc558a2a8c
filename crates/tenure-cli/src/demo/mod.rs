//! `tenure demo`: a newcomer's first minute.
//!
//! Real processes, real sockets, a real disk; and what happened is read from what the workers did,
//! at the fenced table they wrote to, not from what they say of themselves.

mod fleet;
mod measure;
mod passes;
mod report;
mod script;
mod worker;

#[path = "../../../../examples/log_rollup/job.rs"]
mod job;

use std::process::ExitCode;

use crate::cli::Demo;
use crate::exit::Failure;

pub(crate) use worker::worker;

pub(crate) fn demo(arguments: &Demo) -> Result<ExitCode, Failure> {
    let kept = script::play(arguments)?;
    Ok(if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

//! The task of the workers: the log roll-up of the examples.

#[path = "../../../../../examples/log_rollup/job.rs"]
mod log_rollup;

pub(super) use log_rollup::{LogRollup, prepare};

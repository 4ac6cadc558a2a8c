//! The task of the workers: the log roll-up of the examples.

// A link to the file of the example, so that a package of this crate contains a copy.
#[path = "log_rollup.rs"]
mod log_rollup;

pub(super) use log_rollup::{LogRollup, prepare};

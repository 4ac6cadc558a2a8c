//! Runs seeds over random faults, and judges what comes of them.

mod run;
mod seeds;

pub use run::{Ground, Outcome, run, trace};
pub use seeds::{Found, Report, all};

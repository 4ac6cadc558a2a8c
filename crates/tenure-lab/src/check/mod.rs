//! Runs seeds over random faults, and judges what comes of them.

mod plants;
mod run;
mod seeds;

pub use plants::plants;
pub use run::{Ground, Outcome, run, trace};
pub use seeds::{Found, Report, all};

//! Runs seeds under random faults or fault scripts, and checks the invariants.

mod random;
mod run;
mod script;
mod scripts;
mod seeds;
mod storm;

pub use run::{CheckCase, RunOutcome, run, trace};
pub use script::FaultScript;
pub use seeds::{CheckReport, Finding, run_seeds};

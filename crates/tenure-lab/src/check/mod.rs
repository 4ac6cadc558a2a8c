//! Runs seeds under random faults or fault scripts, and checks the invariants.

#[cfg(feature = "mutations")]
mod mutations;
mod run;
mod script;
mod scripts;
mod seeds;

pub use run::{CheckCase, RunOutcome, run, trace};
pub use script::{FaultScript, UnknownScript};
pub use seeds::{CheckReport, Finding, run_seeds};

use crate::fault::UnknownMutation;

/// A case that catches each mutation.
///
/// # Errors
///
/// [`UnknownMutation::NotBuilt`] in a build without the feature `mutations`.
pub fn mutations() -> Result<Vec<CheckCase>, UnknownMutation> {
    #[cfg(feature = "mutations")]
    return Ok(mutations::mutations());
    #[cfg(not(feature = "mutations"))]
    return Err(UnknownMutation::NotBuilt);
}

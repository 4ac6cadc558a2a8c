//! Runs seeds under random faults or fault scripts, and checks the invariants.

#[cfg(feature = "mutations")]
mod mutations;
mod random;
mod run;
mod script;
mod scripts;
mod seeds;
mod storm;

pub use run::{CheckCase, RunOutcome, run, trace};
pub use script::FaultScript;
pub use seeds::{CheckReport, Finding, run_seeds};

use crate::mutation::Mutation;
use crate::names::{self, UnknownName};

/// The reason why a mutation can't be enabled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MutationError {
    /// The name is unknown.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// This build contains no mutations.
    #[error(
        "this build has no mutations; for tests only: cargo run -p tenure-lab --features mutations -- \
         compare check --mutation NAME"
    )]
    NotBuilt,
}

/// Returns all mutations, each in the case that catches it.
///
/// # Errors
///
/// [`MutationError::NotBuilt`] in a build without the feature `mutations`.
pub fn mutations() -> Result<Vec<CheckCase>, MutationError> {
    #[cfg(feature = "mutations")]
    return Ok(mutations::mutations());
    #[cfg(not(feature = "mutations"))]
    return Err(MutationError::NotBuilt);
}

/// Returns the mutation with this name.
///
/// # Errors
///
/// [`MutationError`].
pub fn mutation_of_name(name: &str) -> Result<Mutation, MutationError> {
    let all = mutations()?.into_iter().filter_map(|case| case.mutation);
    Ok(names::find("mutation", name, all, ToString::to_string)?)
}

//! Runs seeds over random faults, and judges what comes of them.

mod course;
mod courses;
#[cfg(feature = "mutations")]
mod plants;
mod run;
mod seeds;

pub use course::{Course, UnknownCourse};
pub use run::{Ground, Outcome, run, trace};
pub use seeds::{Found, Report, all};

use crate::fault::NoSuchMistake;

/// A ground for each mistake that can be made on purpose, on which it shows.
///
/// # Errors
///
/// [`NoSuchMistake::None`] in a build that can't make any.
pub fn plants() -> Result<Vec<Ground>, NoSuchMistake> {
    #[cfg(feature = "mutations")]
    return Ok(plants::plants());
    #[cfg(not(feature = "mutations"))]
    return Err(NoSuchMistake::None);
}

//! Checks of the parameters of detectors.

use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

/// The shortest interval and the shortest timeout. Below it, the scheduling delays of a busy
/// machine matter more than the setting.
pub const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// The longest duration of any parameter. A detector that takes longer than a day is useless.
pub const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// The reason why a detector refuses its parameters. The text contains the parameter, its value and
/// the limit, which may be another parameter. The caller must change one of the two.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(String);

/// Returns an error with this text unless the condition holds.
///
/// # Errors
///
/// [`OptionsError`].
pub fn ensure(holds: bool, error: impl fmt::Display) -> Result<(), OptionsError> {
    if holds {
        Ok(())
    } else {
        Err(OptionsError(error.to_string()))
    }
}

/// Checks that `value` is between the shortest and the longest duration.
///
/// # Errors
///
/// [`OptionsError`].
pub fn duration(name: &str, value: Duration) -> Result<(), OptionsError> {
    ensure(
        value >= MIN_INTERVAL,
        format_args!("{name} {value:?} must be at least {MIN_INTERVAL:?}"),
    )?;
    ensure(
        value <= MAX_DURATION,
        format_args!("{name} {value:?} must be at most {MAX_DURATION:?}"),
    )
}

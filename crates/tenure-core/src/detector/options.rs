//! Checks of the parameters of detectors.

use core::time::Duration;

/// Shortest interval and shortest timeout: below it, the scheduling delays of a busy machine matter
/// more than the setting.
pub const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Longest duration of any parameter: a detector that takes longer than a day is useless.
pub const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// The reason why a detector refuses its parameters. The caller must change one of the two numbers.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A duration is too short or too long, on its own or compared with another parameter.
    #[error("{name} {value:?} must be {relation} {limit_name}{limit:?}")]
    Duration {
        /// The parameter.
        name: &'static str,
        /// The value of the parameter.
        value: Duration,
        /// `at least` or `at most`.
        relation: &'static str,
        /// The parameter or bound that the value is compared with.
        limit_name: &'static str,
        /// Its value.
        limit: Duration,
    },
    /// A number is outside its range.
    #[error("{name} {value} must be {least} to {most}")]
    Number {
        /// The parameter.
        name: &'static str,
        /// The value of the parameter.
        value: f64,
        /// The smallest allowed value.
        least: f64,
        /// The largest allowed value.
        most: f64,
    },
}

/// Checks that `value` is between the shortest and the longest duration.
///
/// # Errors
///
/// [`OptionsError::Duration`].
pub fn duration(name: &'static str, value: Duration) -> Result<(), OptionsError> {
    at_least(name, value, "", MIN_INTERVAL)?;
    at_most(name, value, "", MAX_DURATION)
}

/// Checks that `value` is at least `limit`, which `limit_name` describes.
///
/// # Errors
///
/// [`OptionsError::Duration`].
pub fn at_least(
    name: &'static str,
    value: Duration,
    limit_name: &'static str,
    limit: Duration,
) -> Result<(), OptionsError> {
    if value >= limit {
        return Ok(());
    }
    Err(OptionsError::Duration {
        name,
        value,
        relation: "at least",
        limit_name,
        limit,
    })
}

pub(super) fn at_most(
    name: &'static str,
    value: Duration,
    limit_name: &'static str,
    limit: Duration,
) -> Result<(), OptionsError> {
    if value <= limit {
        return Ok(());
    }
    Err(OptionsError::Duration {
        name,
        value,
        relation: "at most",
        limit_name,
        limit,
    })
}

pub(super) fn number(
    name: &'static str,
    value: f64,
    least: f64,
    most: f64,
) -> Result<(), OptionsError> {
    // NaN is in no range.
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(OptionsError::Number {
        name,
        value,
        least,
        most,
    })
}

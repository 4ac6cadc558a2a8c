//! The options of questions, and checks of the parameters of detectors.

use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

/// The shortest interval and the shortest timeout. Below it, the scheduling delays of a busy
/// machine matter more than the setting.
pub const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// The longest duration of any parameter. A detector that takes longer than a day is useless.
pub const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// The timing of questions about a node, and of the reuse of a `Down` answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskOptions {
    /// T_o: a node counts as down if it sends nothing for this time after the question. Default:
    /// 500 ms. It must be well above the longest time of a message and its answer. A longer time
    /// means fewer mistakes and later answers.
    pub timeout: Duration,
    /// The number of pings within the timeout, evenly spaced. Default: 2, at most 10. Each further
    /// ping multiplies the probability of a mistake by lost messages by the loss rate, but leaves
    /// less time for the answer to the last ping: the timeout divided by this number.
    pub pings: u32,
    /// The time to answer if there is a reason to suspect the node: it refused a connection, or it
    /// is on the down list. Default: 125 ms. At most the timeout.
    pub confirm: Duration,
    /// T_fresh: the time after a node was found down in which questions about it are answered
    /// without a ping. Default: 2 s. A longer time means fewer messages, but a node that is up
    /// again and whose recovery notices are lost counts as down for that much longer. With zero,
    /// every question sends a ping.
    pub fresh: Duration,
}

impl Default for AskOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_millis(500),
            pings: 2,
            confirm: Duration::from_millis(125),
            fresh: Duration::from_secs(2),
        }
    }
}

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

//! Return values of a leader's task.

use std::fmt::Display;

/// A return value of a leader's task: nothing, or a result whose error tells why the task failed.
pub trait TaskResult: Send + 'static {
    /// The error's text, if the task failed.
    ///
    /// # Errors
    ///
    /// The task's own error, as text.
    fn into_result(self) -> Result<(), String>;
}

impl TaskResult for () {
    fn into_result(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: Display + Send + 'static> TaskResult for Result<(), E> {
    fn into_result(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

//! The output of a leader's task.

use std::error::Error;

/// The output of a leader's task: nothing, or a result whose error is the reason why the task
/// failed.
///
/// Errors are those that convert to `Box<dyn Error + Send + Sync>`: types that implement
/// [`std::error::Error`], `anyhow::Error`, such boxes, and text. The log and
/// [`TermSummary`](crate::TermSummary) show an error with its causes. To return a value, a task can
/// send it through a channel.
///
/// This trait is sealed.
#[diagnostic::on_unimplemented(
    message = "a leader's task can't return `{Self}`",
    label = "must be `()` or a `Result<(), E>`",
    note = "`E` may be an error type, `anyhow::Error`, `Box<dyn Error + Send + Sync>`, `String` or `&str`"
)]
pub trait TaskResult: Send + sealed::Sealed + 'static {
    /// Returns the error with its causes, if the task failed.
    ///
    /// # Errors
    ///
    /// The task's own error, as text.
    #[doc(hidden)]
    fn into_result(self) -> Result<(), String>;
}

impl TaskResult for () {
    fn into_result(self) -> Result<(), String> {
        Ok(())
    }
}

// Without this attribute the compiler reports a failed conversion and does not mention the task.
#[diagnostic::do_not_recommend]
impl<E: Into<Box<dyn Error + Send + Sync>> + Send + 'static> TaskResult for Result<(), E> {
    fn into_result(self) -> Result<(), String> {
        self.map_err(|error| with_causes(&*error.into()))
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for () {}
    impl<E> Sealed for Result<(), E> {}
}

/// Formats an error with its causes, as in `can't read the ledger: no such file`. Omits a cause if
/// the text before it already contains the cause.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("can't read the ledger")]
    struct Unreadable(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("can't settle: {0}")]
    struct Unsettled(#[source] std::io::Error);

    #[test]
    fn an_error_is_shown_with_each_of_its_causes_once() {
        let cause = || std::io::Error::other("the disk is gone");
        let text = |result: Result<(), Box<dyn Error + Send + Sync>>| result.into_result();
        let whole = "can't read the ledger: the disk is gone";
        assert_eq!(text(Err(Unreadable(cause()).into())), Err(whole.into()));
        let whole = "can't settle: the disk is gone";
        assert_eq!(text(Err(Unsettled(cause()).into())), Err(whole.into()));
        let result: Result<(), &str> = Err("no ledger");
        assert_eq!(result.into_result(), Err("no ledger".into()));
    }
}

//! The messages of panics.

use std::any::Any;

/// Returns the message of a panic, or `unknown` if it has none.
pub(crate) fn text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown")
}

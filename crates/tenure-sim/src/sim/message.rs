//! The interface of a message in the simulation.

use std::any::Any;
use std::fmt;

/// A message between hosts. Each algorithm has messages of its own.
pub trait SimMessage: Any + fmt::Debug {
    /// Returns the kind of the message as one word.
    fn kind(&self) -> &'static str;

    /// Returns the size of the body as JSON, without HTTP headers.
    fn bytes(&self) -> u64;

    /// Returns whether the message comes from a failure detector.
    fn is_detection(&self) -> bool {
        false
    }

    /// Returns whether this counts as a message. The end of a connection does not.
    fn is_message(&self) -> bool {
        true
    }
}

impl dyn SimMessage {
    /// Returns the message if it is of this type.
    #[must_use]
    pub fn downcast_ref<M: SimMessage>(&self) -> Option<&M> {
        (self as &dyn Any).downcast_ref()
    }
}

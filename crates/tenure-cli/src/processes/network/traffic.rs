//! Counts of messages.

use std::ops::Sub;

/// How much was sent over all links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrafficCount {
    /// Requests and responses.
    pub(crate) messages: u64,
    /// Including the headers of all layers that the network sees.
    pub(crate) bytes: u64,
}

impl Sub for TrafficCount {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(earlier.messages),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

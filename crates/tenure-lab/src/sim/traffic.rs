//! How much was sent.

use std::collections::BTreeMap;
use std::ops::Sub;

use super::Payload;

/// How much was sent since the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages, by kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Messages about who leads.
    pub election: u64,
    /// Messages about who is alive.
    pub detection: u64,
    /// The bytes of all bodies; zero where they were not counted.
    pub bytes: u64,
}

impl Traffic {
    pub(super) fn count(&mut self, payload: &Payload, bytes: bool) {
        *self.kinds.entry(payload.kind()).or_default() += 1;
        if payload.is_detection() {
            self.detection += 1;
        } else {
            self.election += 1;
        }
        if bytes {
            self.bytes += payload.bytes();
        }
    }

    /// All messages.
    #[must_use]
    pub const fn messages(&self) -> u64 {
        self.election + self.detection
    }
}

/// What was sent between an earlier moment and this one.
impl Sub<&Self> for Traffic {
    type Output = Self;

    fn sub(mut self, earlier: &Self) -> Self {
        for (kind, count) in &mut self.kinds {
            *count -= earlier.kinds.get(kind).copied().unwrap_or_default();
        }
        self.kinds.retain(|_, count| *count > 0);
        self.election -= earlier.election;
        self.detection -= earlier.detection;
        self.bytes -= earlier.bytes;
        self
    }
}

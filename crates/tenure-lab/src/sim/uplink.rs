//! The uplink of a host: how long each message occupies it.

use std::time::Duration;

use super::Time;

/// How hosts send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sending {
    /// All messages at once.
    #[default]
    AtOnce,
    /// One message after the other; each takes this time.
    OneByOne(Duration),
    /// The same message to many at once, different ones one after the other; each takes this time.
    Multicast(Duration),
}

/// The messages that leave a host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uplink {
    free: Time,
    /// When the last message was enqueued, and its kind.
    last: Option<(Time, &'static str)>,
}

impl Uplink {
    /// Enqueues a message and returns how long it takes until it has left.
    pub(super) fn enqueue(&mut self, sending: Sending, now: Time, kind: &'static str) -> Duration {
        let takes = match sending {
            Sending::AtOnce => return Duration::ZERO,
            Sending::Multicast(_) if self.last == Some((now, kind)) => Duration::ZERO,
            Sending::OneByOne(takes) | Sending::Multicast(takes) => takes,
        };
        self.last = Some((now, kind));
        self.free = self.free.max(now) + takes;
        self.free.since(now)
    }
}

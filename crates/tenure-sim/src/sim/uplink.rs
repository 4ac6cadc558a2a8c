//! The uplink of a host: the time for which each message occupies it.

use std::time::Duration;

use super::Time;

/// The way in which hosts send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sending {
    /// All messages leave at once.
    #[default]
    AtOnce,
    /// Messages leave one after the other, and each takes this time.
    OneByOne(Duration),
    /// A message to many hosts leaves at once. Different messages leave one after the other, and
    /// each takes this time.
    Multicast(Duration),
}

/// The messages that leave a host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uplink {
    free: Time,
    /// The time at which the last message was enqueued, and its kind.
    last: Option<(Time, &'static str)>,
}

impl Uplink {
    /// Enqueues a message and returns the time until it has left.
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

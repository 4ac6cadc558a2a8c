//! A machine's line out: how long it is busy with each message.

use std::time::Duration;

use super::Time;

/// How machines send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sending {
    /// Everything at once.
    #[default]
    AtOnce,
    /// One message after the other, each so long.
    OneByOne(Duration),
    /// The same to many at once, different things one after the other, each so long.
    Multicast(Duration),
}

/// What is on its way out of a machine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uplink {
    free: Time,
    /// When the last message was given to it, and its kind.
    last: Option<(Time, &'static str)>,
}

impl Uplink {
    /// One more message; how long until it is out.
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

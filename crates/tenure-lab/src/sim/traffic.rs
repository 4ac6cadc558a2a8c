//! Counts of messages.

use std::collections::BTreeMap;
use std::ops::Sub;

use super::{Payload, Time};

/// The messages since the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages, by kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Messages of elections.
    pub election: u64,
    /// Messages of failure detectors.
    pub detection: u64,
    /// The bytes of all bodies; 0 if they are not counted.
    pub bytes: u64,
}

/// The messages over time, if bytes are counted: running totals, one entry per message.
#[derive(Clone, Debug, Default)]
pub struct TrafficLog(Vec<(Time, TrafficSum)>);

/// A number of messages, and the bytes of their bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficSum {
    /// Messages of elections.
    pub election: u64,
    /// Their bytes.
    pub election_bytes: u64,
    /// All messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl TrafficLog {
    pub(super) fn record(&mut self, now: Time, payload: &Payload, bytes: u64) {
        let mut sum = self.0.last().map(|(_, sum)| *sum).unwrap_or_default();
        sum.messages += 1;
        sum.bytes += bytes;
        if !payload.is_detection() {
            sum.election += 1;
            sum.election_bytes += bytes;
        }
        self.0.push((now, sum));
    }

    /// The messages between two times, both included.
    #[must_use]
    pub fn between(&self, from: Time, until: Time) -> TrafficSum {
        let sum = |lines: usize| match lines.checked_sub(1) {
            Some(last) => self.0[last].1,
            None => TrafficSum::default(),
        };
        let before = sum(self.0.partition_point(|(at, _)| *at < from));
        let after = sum(self.0.partition_point(|(at, _)| *at <= until));
        after - before
    }
}

impl Sub for TrafficSum {
    type Output = Self;

    /// The messages since an earlier sum.
    fn sub(self, earlier: Self) -> Self {
        Self {
            election: self.election.saturating_sub(earlier.election),
            election_bytes: self.election_bytes.saturating_sub(earlier.election_bytes),
            messages: self.messages.saturating_sub(earlier.messages),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

impl Traffic {
    pub(super) fn count(&mut self, payload: &Payload, bytes: u64) {
        *self.kinds.entry(payload.kind()).or_default() += 1;
        if payload.is_detection() {
            self.detection += 1;
        } else {
            self.election += 1;
        }
        self.bytes += bytes;
    }

    /// All messages.
    #[must_use]
    pub const fn messages(&self) -> u64 {
        self.election + self.detection
    }
}

/// The messages since an earlier count.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_core::NodeId;

    use super::*;
    use crate::baseline::ring;

    #[test]
    fn a_log_counts_the_messages_between_two_times_and_at_both() {
        let mut traffic_log = TrafficLog::default();
        let at = |secs| Time::after(Duration::from_secs(secs));
        for secs in [1, 2, 2, 3, 5] {
            let payload = Payload::Ring(ring::RingMessage::Election(NodeId(1)));
            traffic_log.record(at(secs), &payload, 10);
        }
        let found = traffic_log.between(at(2), at(3));
        assert_eq!((found.election, found.messages, found.bytes), (3, 3, 30));
        assert_eq!(traffic_log.between(at(6), at(9)), TrafficSum::default());
        assert_eq!(traffic_log.between(at(0), at(9)).election_bytes, 50);
    }
}

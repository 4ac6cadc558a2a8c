//! Counts of messages.

use std::ops::Sub;

use super::Time;

/// Numbers of messages, and the bytes of their bodies. The bytes are 0 if they are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages of elections.
    pub election: u64,
    /// The bytes of those messages.
    pub election_bytes: u64,
    /// The number of all messages, including those of failure detectors.
    pub messages: u64,
    /// The bytes of all messages.
    pub bytes: u64,
    /// The number of durable writes, each with a sync of a disk, of the store and of members.
    pub durable_writes: u64,
}

/// The messages over time, if bytes are counted: running totals, one entry per message.
#[derive(Clone, Debug, Default)]
pub struct TrafficLog(Vec<(Time, Traffic)>);

impl TrafficLog {
    pub(super) fn record(&mut self, now: Time, total: Traffic) {
        self.0.push((now, total));
    }

    /// Returns the messages between two times, both included.
    #[must_use]
    pub fn between(&self, from: Time, until: Time) -> Traffic {
        let total = |lines: usize| match lines.checked_sub(1) {
            Some(last) => self.0[last].1,
            None => Traffic::default(),
        };
        let before = total(self.0.partition_point(|(at, _)| *at < from));
        let after = total(self.0.partition_point(|(at, _)| *at <= until));
        after - before
    }
}

impl Traffic {
    pub(super) fn count(&mut self, is_detection: bool, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
        if !is_detection {
            self.election += 1;
            self.election_bytes += bytes;
        }
    }

    /// Returns the number of messages of failure detectors.
    #[must_use]
    pub const fn detection(&self) -> u64 {
        self.messages - self.election
    }
}

/// Returns the messages since an earlier count.
impl Sub for Traffic {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            election: self.election - earlier.election,
            election_bytes: self.election_bytes - earlier.election_bytes,
            messages: self.messages - earlier.messages,
            bytes: self.bytes - earlier.bytes,
            durable_writes: self.durable_writes - earlier.durable_writes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_log_counts_the_messages_between_two_times_and_at_both() {
        let mut traffic_log = TrafficLog::default();
        let mut total = Traffic::default();
        let at = |secs| Time::after(Duration::from_secs(secs));
        for secs in [1, 2, 2, 3, 5] {
            total.count(false, 10);
            traffic_log.record(at(secs), total);
        }
        let found = traffic_log.between(at(2), at(3));
        assert_eq!((found.election, found.messages, found.bytes), (3, 3, 30));
        assert_eq!(traffic_log.between(at(6), at(9)), Traffic::default());
        assert_eq!(traffic_log.between(at(0), at(9)).election_bytes, 50);
    }
}

//! A queue in the order of time and then of insertion.

use std::collections::BTreeMap;

use super::Time;

/// Entries in the order of their times, and then of their insertion.
#[derive(Debug)]
pub(super) struct Queue<T> {
    entries: BTreeMap<(Time, u64), T>,
    count: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            count: 0,
        }
    }
}

impl<T> Queue<T> {
    pub(super) fn push(&mut self, at: Time, entry: T) {
        self.count += 1;
        self.entries.insert((at, self.count), entry);
    }

    /// Returns the next entry if it is due by `end`.
    pub(super) fn pop_until(&mut self, end: Time) -> Option<(Time, T)> {
        let first = self.entries.first_entry()?;
        let (at, _) = *first.key();
        (at <= end).then(|| (at, first.remove()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn entries_come_in_the_order_of_time_and_then_of_insertion() {
        let at = |secs| Time::after(Duration::from_secs(secs));
        let mut queue = Queue::default();
        for (secs, name) in [(2, "c"), (1, "a"), (2, "d"), (1, "b"), (3, "e")] {
            queue.push(at(secs), name);
        }
        let mut come = Vec::new();
        while let Some((_, name)) = queue.pop_until(at(2)) {
            come.push(name);
        }
        assert_eq!(come, ["a", "b", "c", "d"]);
        queue.push(at(1), "late");
        assert_eq!(queue.pop_until(at(9)), Some((at(1), "late")));
    }
}

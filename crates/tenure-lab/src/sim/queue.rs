//! A queue in the order of time and then of insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Time;

/// With a million entries memory accesses dominate, so the heap is small and the entries do not move.
#[derive(Debug)]
pub(super) struct Queue<T> {
    heap: BinaryHeap<Reverse<(Time, u64, usize)>>,
    entries: Vec<Option<T>>,
    free: Vec<usize>,
    count: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            count: 0,
        }
    }
}

impl<T> Queue<T> {
    pub(super) fn push(&mut self, at: Time, entry: T) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[slot] = Some(entry);
        self.count += 1;
        self.heap.push(Reverse((at, self.count, slot)));
    }

    /// The next entry, if it is due by `end`.
    pub(super) fn pop_until(&mut self, end: Time) -> Option<(Time, T)> {
        let Reverse((at, _, slot)) = *self.heap.peek()?;
        if at > end {
            return None;
        }
        self.heap.pop();
        self.free.push(slot);
        self.entries[slot].take().map(|entry| (at, entry))
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

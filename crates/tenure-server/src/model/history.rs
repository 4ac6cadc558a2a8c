//! The past terms of leases.

use std::collections::{HashMap, VecDeque};

use super::{LeaseKey, TermRecord};

/// The past terms of all leases, at most a number of them for each lease and in all. The oldest ones
/// beyond these limits are forgotten.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// The terms of each lease, oldest first, with their numbers in the order.
    of_lease: HashMap<LeaseKey, VecDeque<(u64, TermRecord)>>,
    /// The numbers of the terms in the order in which they were recorded first. Some are forgotten
    /// already.
    order: VecDeque<(u64, LeaseKey)>,
    /// The number of the next term.
    next: u64,
    /// The number of terms.
    count: usize,
    limits: HistoryLimits,
    /// The number of terms that were forgotten because of [`HistoryLimits::in_all`].
    forgotten: u64,
}

/// The greatest numbers of past terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HistoryLimits {
    pub(crate) of_lease: usize,
    pub(crate) in_all: usize,
}

impl HistoryLimits {
    /// Everything is kept.
    pub(crate) const NONE: Self = Self {
        of_lease: usize::MAX,
        in_all: usize::MAX,
    };
}

impl Default for History {
    fn default() -> Self {
        Self::new(HistoryLimits::NONE)
    }
}

impl History {
    pub(crate) fn new(limits: HistoryLimits) -> Self {
        Self {
            of_lease: HashMap::new(),
            order: VecDeque::new(),
            next: 0,
            count: 0,
            limits,
            forgotten: 0,
        }
    }

    /// Applies other limits.
    pub(crate) fn limit(&mut self, limits: HistoryLimits) {
        self.limits = limits;
        for terms in self.of_lease.values_mut() {
            let over = terms.len().saturating_sub(limits.of_lease);
            terms.drain(..over);
            self.count -= over;
        }
        self.of_lease.retain(|_, terms| !terms.is_empty());
        self.trim();
    }

    /// Records a term of a lease, or replaces its record.
    pub(crate) fn record(&mut self, key: &LeaseKey, term: TermRecord) {
        if self.limits.of_lease == 0 || self.limits.in_all == 0 {
            return;
        }
        let epoch = term.epoch;
        let terms = self.of_lease.entry(key.clone()).or_default();
        match terms.back_mut() {
            Some((_, last)) if last.epoch == epoch => *last = term.replacing(last.clone()),
            // The epochs of a lease only grow, so this term was recorded, or was forgotten.
            Some((_, last)) if last.epoch > epoch => {}
            _ => {
                terms.push_back((self.next, term));
                if terms.len() > self.limits.of_lease {
                    terms.pop_front();
                } else {
                    self.count += 1;
                }
                self.order.push_back((self.next, key.clone()));
                self.next += 1;
                self.trim();
            }
        }
    }

    /// Forgets the terms of a lease, which was deleted.
    pub(crate) fn forget(&mut self, key: &LeaseKey) {
        self.count -= self.of_lease.remove(key).map_or(0, |terms| terms.len());
        self.compact();
    }

    /// Returns the terms of a lease, newest first.
    pub(crate) fn terms(&self, key: &LeaseKey) -> impl Iterator<Item = &TermRecord> {
        let terms = self.of_lease.get(key).into_iter().flatten();
        terms.rev().map(|(_, term)| term)
    }

    /// Returns all terms, in the order in which they were recorded first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&LeaseKey, &TermRecord)> {
        self.order.iter().filter_map(|(number, key)| {
            let terms = self.of_lease.get(key)?;
            let at = terms.binary_search_by_key(number, |(number, _)| *number);
            Some((key, &terms[at.ok()?].1))
        })
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Returns the number of terms that were forgotten because there were too many in all.
    pub(crate) const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Forgets the oldest terms beyond the limit.
    fn trim(&mut self) {
        while self.count > self.limits.in_all
            && let Some((number, key)) = self.order.pop_front()
        {
            let Some(terms) = self.of_lease.get_mut(&key) else {
                continue;
            };
            // The first term in the order is the first one of its lease, unless it is forgotten.
            if terms.front().is_some_and(|(first, _)| *first == number) {
                terms.pop_front();
                self.count -= 1;
                self.forgotten += 1;
            }
            if terms.is_empty() {
                self.of_lease.remove(&key);
            }
        }
        self.compact();
    }

    /// Removes forgotten terms from the order, once they are more than half of it.
    fn compact(&mut self) {
        if self.order.len() < 2 * self.count + 1_000 {
            return;
        }
        let of_lease = &self.of_lease;
        self.order.retain(|(number, key)| {
            let terms = of_lease.get(key);
            terms.is_some_and(|it| {
                it.binary_search_by_key(number, |(number, _)| *number)
                    .is_ok()
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{Epoch, UnixMillis};

    use super::*;

    fn key(number: u64) -> LeaseKey {
        LeaseKey::of_text(&format!("ns/job-{number}"))
    }

    fn term(epoch: u64) -> TermRecord {
        TermRecord {
            epoch: Epoch::new(epoch).unwrap(),
            holder: "a".parse().unwrap(),
            owner: None,
            began_at: UnixMillis::new(epoch),
            ended: None,
            reason: None,
            without_store: None,
        }
    }

    fn epochs(history: &History, of: u64) -> Vec<u64> {
        history.terms(&key(of)).map(|it| it.epoch.get()).collect()
    }

    fn all(history: &History) -> Vec<u64> {
        history.iter().map(|(_, term)| term.epoch.get()).collect()
    }

    #[test]
    fn the_oldest_terms_beyond_each_limit_are_forgotten() {
        let limits = HistoryLimits {
            of_lease: 2,
            in_all: 4,
        };
        let mut history = History::new(limits);
        for (of, epoch) in [(1, 1), (2, 2), (1, 3), (1, 4), (3, 5)] {
            history.record(&key(of), term(epoch));
        }
        assert_eq!(epochs(&history, 1), [4, 3]);
        assert_eq!((all(&history), history.len()), (vec![2, 3, 4, 5], 4));
        assert_eq!(history.forgotten(), 0);
        history.record(&key(3), term(6));
        assert_eq!(all(&history), [3, 4, 5, 6]);
        assert_eq!((epochs(&history, 2), history.forgotten()), (vec![], 1));
        history.limit(HistoryLimits {
            of_lease: 1,
            in_all: 1,
        });
        assert_eq!((all(&history), history.len()), (vec![6], 1));
    }

    #[test]
    fn a_record_of_the_last_term_replaces_it_and_keeps_its_reason() {
        let mut history = History::default();
        let with = |epoch, reason: &str| TermRecord {
            reason: Some(reason.into()),
            ..term(epoch)
        };
        history.record(&key(1), with(2, "first"));
        history.record(&key(1), with(2, "second"));
        history.record(&key(1), term(1));
        let terms: Vec<_> = history.terms(&key(1)).cloned().collect();
        assert_eq!((terms, history.len()), (vec![with(2, "first")], 1));
    }

    #[test]
    fn a_lease_that_changes_without_end_takes_no_more_room_and_pushes_out_no_other() {
        let limits = HistoryLimits {
            of_lease: 3,
            in_all: 10,
        };
        let mut history = History::new(limits);
        history.record(&key(1), term(1));
        for epoch in 2..20_000 {
            history.record(&key(2), term(epoch));
            history.record(&key(3), term(epoch));
            history.forget(&key(3));
        }
        assert_eq!(all(&history), [1, 19_997, 19_998, 19_999]);
        assert!(history.order.len() < 1_100, "{}", history.order.len());
        assert_eq!((history.forgotten(), history.len()), (0, 4));
    }
}

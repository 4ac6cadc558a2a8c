//! The encoding of the lease ids of ended terms in a change.
//!
//! These ids are the largest part of a lease that changes hands often. One change adds one id and
//! forgets a few, so a batch contains only the difference where that is shorter.

use tenure_core::lease::LeaseId;

/// The difference between two lists of retired lease ids, each oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetiredDelta {
    /// The revision of the lease that had the earlier list. The difference is valid for no other
    /// list.
    pub(super) follows: u64,
    /// The ids that were removed from the list.
    pub(super) forgotten: Vec<LeaseId>,
    /// The ids that were appended to the list.
    pub(super) added: Vec<LeaseId>,
}

impl RetiredDelta {
    /// Returns the difference between the list `before`, as of revision `follows`, and the list
    /// `after`. Returns `None` if the difference is not shorter than `after`.
    pub(super) fn between(
        follows: u64,
        before: impl IntoIterator<Item = LeaseId>,
        after: &[LeaseId],
    ) -> Option<Self> {
        let mut rest = after;
        let mut forgotten = Vec::new();
        for id in before {
            match rest.split_first() {
                Some((first, others)) if *first == id => rest = others,
                _ => forgotten.push(id),
            }
        }
        (forgotten.len() + rest.len() < after.len()).then(|| Self {
            follows,
            forgotten,
            added: rest.to_vec(),
        })
    }

    /// Returns the difference that this one and then `next` make. `revision` is that of this change.
    pub(super) fn then(mut self, next: &Self, revision: u64) -> Result<Self, String> {
        next.check(revision)?;
        for id in &next.forgotten {
            // An id that this change added was never in the list before.
            match self.added.iter().position(|added| added == id) {
                Some(at) => drop(self.added.remove(at)),
                None => self.forgotten.push(*id),
            }
        }
        self.added.extend_from_slice(&next.added);
        Ok(self)
    }

    fn check(&self, revision: u64) -> Result<(), String> {
        match self.follows == revision {
            true => Ok(()),
            false => Err(format!(
                "a change follows revision {} of its lease, which is at revision {revision}",
                self.follows
            )),
        }
    }

    /// Applies the difference to the list that the lease had as of `revision`.
    pub(in crate::engine) fn apply(
        &self,
        before: &[LeaseId],
        revision: u64,
    ) -> Result<Vec<LeaseId>, String> {
        self.check(revision)?;
        let kept = before.iter().filter(|id| !self.forgotten.contains(id));
        Ok(kept.chain(&self.added).copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[u64]) -> Vec<LeaseId> {
        let ids = ids.iter().map(|&id| LeaseId::from_random_bits(0, id));
        ids.collect()
    }

    #[test]
    fn a_delta_makes_the_later_list_of_the_earlier_one_and_is_shorter() {
        let lists: [&[u64]; 7] = [
            &[],
            &[1, 2, 3, 4],
            &[1, 2, 3, 4, 5],
            &[2, 3, 4, 5],
            &[2, 4, 5, 3],
            &[3, 4, 5, 2],
            &[9, 8, 7],
        ];
        for before in lists {
            for after in lists {
                let (before, after) = (ids(before), ids(after));
                let Some(delta) = RetiredDelta::between(7, before.iter().copied(), &after) else {
                    continue;
                };
                assert!(delta.forgotten.len() + delta.added.len() < after.len());
                assert!(delta.apply(&before, 6).is_err());
                assert_eq!(delta.apply(&before, 7), Ok(after));
            }
        }
        for [first, second, third] in [[1, 2, 3], [2, 3, 4], [3, 5, 1]] {
            let [first, second, third] = [first, second, third].map(|at: usize| ids(lists[at]));
            let one = RetiredDelta::between(7, first.iter().copied(), &second);
            let two = RetiredDelta::between(8, second.iter().copied(), &third);
            let (Some(one), Some(two)) = (one, two) else {
                continue;
            };
            assert!(one.clone().then(&two, 9).is_err());
            let both = one.then(&two, 8).unwrap();
            assert_eq!(both.apply(&first, 7), Ok(third));
        }
        let usual = RetiredDelta::between(7, ids(&[1, 2, 3, 4]), &ids(&[2, 3, 4, 5]));
        let usual = usual.unwrap();
        assert_eq!((usual.forgotten, usual.added), (ids(&[1]), ids(&[5])));
    }
}

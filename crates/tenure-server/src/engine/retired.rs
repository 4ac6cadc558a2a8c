//! What a change does to the lease ids that a lease must not be granted with again.

use tenure_core::lease::LeaseId;

/// The difference between two lists of retired lease ids, oldest first: a lease that changes hands often
/// remembers dozens, and one change forgets or adds a few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retired {
    /// They are no longer in the list.
    pub(crate) forgotten: Vec<LeaseId>,
    /// They are at its end now.
    pub(crate) added: Vec<LeaseId>,
}

impl Retired {
    /// What made the list `before` the list `after`. `None` if that takes more room than `after`.
    pub(crate) fn between(
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
            forgotten,
            added: rest.to_vec(),
        })
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
    fn a_list_is_what_it_was_without_the_forgotten_ones_and_with_the_added_ones() {
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
                let retired = Retired::between(before.iter().copied(), &after);
                if let Some(Retired { forgotten, added }) = retired {
                    assert!(forgotten.len() + added.len() < after.len());
                    let mut list = before;
                    list.retain(|id| !forgotten.contains(id));
                    list.extend(added);
                    assert_eq!(list, after);
                }
            }
        }
        let usual = Retired::between(ids(&[1, 2, 3, 4]), &ids(&[2, 3, 4, 5]));
        let usual = usual.unwrap();
        assert_eq!((usual.forgotten, usual.added), (ids(&[1]), ids(&[5])));
    }
}

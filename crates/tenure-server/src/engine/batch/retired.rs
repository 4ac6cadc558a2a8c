//! The lease ids of ended terms, and how a change writes them.
//!
//! They are the largest part of a lease that changes hands often. One change adds one and forgets a few, so
//! a batch has only the difference where that is shorter.

use std::borrow::Cow;

use tenure_core::lease::LeaseId;

/// The difference between two lists of retired lease ids, each oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RetiredDelta {
    /// The ids that are no longer in the list.
    pub(super) forgotten: Vec<LeaseId>,
    /// The ids that are at its end now.
    pub(super) added: Vec<LeaseId>,
}

impl RetiredDelta {
    /// The difference that makes `after` of `before`. `None` if it is not shorter than `after`.
    pub(super) fn between(
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

/// The retired ids of a lease, as a batch has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RetiredIds<'a> {
    /// All of them.
    All(Cow<'a, [u8]>),
    /// The difference to those that the lease had as of the revision `follows`.
    Delta {
        follows: u64,
        forgotten: &'a [u8],
        added: Cow<'a, [u8]>,
    },
}

impl RetiredIds<'_> {
    /// Changes the list that the lease had as of `revision`. A delta applies to the list that it follows and
    /// to no other.
    pub(super) fn apply(&self, list: &mut Vec<[u8; ID]>, revision: u64) -> Result<(), String> {
        match self {
            Self::All(all) => {
                list.clear();
                list.extend_from_slice(all.as_chunks().0);
            }
            Self::Delta { follows, .. } if *follows != revision => {
                return Err(format!(
                    "a change follows revision {follows} of its lease, which is at revision {revision}"
                ));
            }
            Self::Delta {
                forgotten, added, ..
            } => {
                let forgotten = forgotten.as_chunks().0;
                if !forgotten.is_empty() {
                    list.retain(|id| !forgotten.contains(id));
                }
                list.extend_from_slice(added.as_chunks().0);
            }
        }
        Ok(())
    }
}

/// The size of a lease id.
pub(super) const ID: usize = 16;

/// Lease ids, one after the other.
pub(crate) fn bytes_of(ids: &[LeaseId]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ID * ids.len());
    for id in ids {
        bytes.extend_from_slice(&id.to_bytes());
    }
    bytes
}

/// The lease ids that [`bytes_of`] wrote.
pub(crate) fn ids_of(bytes: &[u8]) -> Option<Vec<LeaseId>> {
    let (ids, rest) = bytes.as_chunks();
    let ids = ids.iter().copied().map(LeaseId::from_bytes).collect();
    rest.is_empty().then_some(ids)
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
                let delta = RetiredDelta::between(before.iter().copied(), &after);
                let Some(RetiredDelta { forgotten, added }) = delta else {
                    continue;
                };
                assert!(forgotten.len() + added.len() < after.len());
                let forgotten = bytes_of(&forgotten);
                let delta = RetiredIds::Delta {
                    follows: 7,
                    forgotten: &forgotten,
                    added: bytes_of(&added).into(),
                };
                let mut list = bytes_of(&before).as_chunks().0.to_vec();
                assert!(delta.apply(&mut list.clone(), 6).is_err());
                delta.apply(&mut list, 7).unwrap();
                assert_eq!(ids_of(&list.into_flattened()), Some(after));
            }
        }
        let usual = RetiredDelta::between(ids(&[1, 2, 3, 4]), &ids(&[2, 3, 4, 5]));
        let usual = usual.unwrap();
        assert_eq!((usual.forgotten, usual.added), (ids(&[1]), ids(&[5])));
    }
}

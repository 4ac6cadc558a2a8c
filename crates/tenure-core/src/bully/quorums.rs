//! The sets of voters that elect a leader.

use alloc::format;
use alloc::string::String;
use core::fmt;

/// The sets of voters whose promises make a leader: a number of members together with the store,
/// or a larger number of members without it.
///
/// **Any two quorums share a voter**, so at most one candidate has the valid promises of one. With
/// n members, k of them needed beside the store and m without it:
///
/// - two quorums with the store share the store;
/// - one of each kind share a member, because k + m > n;
/// - two without the store share a member, because 2 m > n.
///
/// [`Quorums::fallback`] chooses m = n - k + 1, the smallest that satisfies the second line, and
/// refuses a k for which the third one would not hold.
///
/// **Moving a group from a lease to a fallback, one candidate after the other.** A candidate by
/// lease alone leads with the store's promise and asks no member. So it shares no voter with a
/// quorum of members alone, and the two kinds of candidates must never run together. One step
/// between them is enough: members that vote, but elect no leader without the store
/// ([`Quorums::requiring_store`]).
///
/// - A lease alone and {store, k members} share the store. So candidates by lease and members that
///   require the store may be mixed. The store grants all of their epochs, so epochs increase.
/// - {store, k members} is a quorum of the fallback too. So members that require the store may be
///   mixed with members that do not.
///
/// Epochs also increase from one mixture to the next if there is a leader when all members require
/// the store. On the way to the fallback, k members then know an epoch above all epochs of the
/// leases before, and every later quorum without the store has one of them. On the way back, the
/// store knows an epoch above all epochs that members alone have promised, because one of the k
/// members had promised the last of those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quorums {
    with_store: Option<usize>,
    without_store: usize,
    requires_store: bool,
}

/// The kind of the quorum that carries a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuorumKind {
    /// The store and at least k members.
    Store,
    /// Members alone.
    Members,
}

impl QuorumKind {
    /// Returns the name in lower case, for logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Members => "members",
        }
    }
}

impl fmt::Display for QuorumKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Quorums {
    /// Returns the quorums of a group without a store: any majority of the members.
    #[must_use]
    pub const fn majority(members: usize) -> Self {
        Self {
            with_store: None,
            without_store: members / 2 + 1,
            requires_store: false,
        }
    }

    /// Returns the quorums of a group with a store as a voter: the store and `k` members, or
    /// `members - k + 1` members without the store.
    ///
    /// # Errors
    ///
    /// [`QuorumsError`] unless `k` is 1 to `(members + 1) / 2`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tenure_core::bully::Quorums;
    ///
    /// let five = Quorums::fallback(5, 2).unwrap();
    /// assert_eq!((five.with_store(), five.without_store()), (Some(2), 4));
    /// assert_eq!(
    ///     Quorums::fallback(5, 4).unwrap_err().to_string(),
    ///     "k is 4 and must be 1 to 3 with 5 members: two groups of 2 members without the store \
    ///      could each elect a leader"
    /// );
    /// ```
    pub const fn fallback(members: usize, k: usize) -> Result<Self, QuorumsError> {
        if k == 0 || k > Self::largest_k(members) {
            return Err(QuorumsError { members, k });
        }
        Ok(Self {
            with_store: Some(k),
            without_store: members - k + 1,
            requires_store: false,
        })
    }

    /// Returns the quorums with the store of these quorums, without those of members alone: the
    /// members vote, but without the store none of them is elected, and no term goes on. This is
    /// the step between a lease and a fallback.
    #[must_use]
    pub const fn requiring_store(self) -> Self {
        Self {
            requires_store: self.with_store.is_some(),
            ..self
        }
    }

    /// Returns whether no leader is elected without the store.
    #[must_use]
    pub const fn requires_store(&self) -> bool {
        self.requires_store
    }

    /// Returns the largest allowed k.
    #[must_use]
    pub const fn largest_k(members: usize) -> usize {
        members.div_ceil(2)
    }

    /// Returns the default k: the largest one for which fewer members are enough with the store
    /// than without it; 1 for a single member.
    #[must_use]
    pub const fn default_k(members: usize) -> usize {
        let half = members / 2;
        if half == 0 { 1 } else { half }
    }

    /// Returns the number of members that are enough beside the store; `None` if the store has no
    /// vote.
    #[must_use]
    pub const fn with_store(&self) -> Option<usize> {
        self.with_store
    }

    /// Returns the number of members that are enough without the store, for members that do not
    /// [require](Self::requires_store) it.
    #[must_use]
    pub const fn without_store(&self) -> usize {
        self.without_store
    }

    /// Describes in words which failures leave a quorum of `members`, for the log at start.
    #[must_use]
    pub fn survives(&self, members: usize) -> String {
        let without = members - self.without_store;
        let count = |lost: usize| match lost {
            0 => String::from("no member"),
            1 => String::from("1 member"),
            lost => format!("{lost} members"),
        };
        match self.with_store {
            None => format!(
                "a leader needs {} of {members} members, and the group survives the loss of {}",
                self.without_store,
                count(without)
            ),
            Some(k) if self.requires_store => format!(
                "a leader needs the store and {k} of {members} members, and the group survives the loss of {}; \
                 no leader is elected without the store",
                count(members - k),
            ),
            Some(k) => format!(
                "while the store answers, a leader needs {k} of {members} members and the group survives the \
                 loss of {}; while it does not, a leader needs {} and the group survives the loss of {}",
                count(members - k),
                self.without_store,
                count(without),
            ),
        }
    }
}

/// The number k does not allow two quorums to share a voter. The configuration must change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuorumsError {
    /// The number of members.
    pub members: usize,
    /// The refused number.
    pub k: usize,
}

impl core::error::Error for QuorumsError {}

impl fmt::Display for QuorumsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { members, k } = *self;
        let most = Quorums::largest_k(members);
        write!(
            f,
            "k is {k} and must be 1 to {most} with {members} members: "
        )?;
        if k == 0 {
            return f.write_str("a leader needs its own promise");
        }
        let rest = (members + 1).saturating_sub(k);
        if rest == 0 {
            return f.write_str("a leader can't have the promises of more members than there are");
        }
        match rest {
            1 => f.write_str("two single members without the store could each elect themselves"),
            _ => write!(
                f,
                "two groups of {rest} members without the store could each elect a leader"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    impl Quorums {
        /// Returns quorums that need not share a voter.
        pub(crate) const fn unchecked(with_store: usize, without_store: usize) -> Self {
            Self {
                with_store: Some(with_store),
                without_store,
                requires_store: false,
            }
        }
    }

    /// Returns whether two disjoint sets of voters can both be quorums.
    fn can_be_disjoint(members: usize, quorums: Quorums) -> bool {
        let k = quorums.with_store().unwrap_or(usize::MAX / 2);
        let m = quorums.without_store();
        (0_u32..1 << members).any(|mask| {
            let one = mask.count_ones() as usize;
            let other = members - one;
            // The store can promise one of the two candidates, or neither.
            other >= m && (one >= k || one >= m)
        })
    }

    #[test]
    fn quorums_that_require_the_store_are_quorums_of_the_fallback_and_a_lease_shares_the_store() {
        let quorums = Quorums::fallback(5, 2).unwrap();
        let required = quorums.requiring_store();
        assert!(required.requires_store() && !quorums.requires_store());
        // The members of both exchange messages, so the numbers are the same.
        assert_eq!(required.with_store(), quorums.with_store());
        assert_eq!(required.without_store(), quorums.without_store());
        assert!(
            required
                .survives(5)
                .ends_with("no leader is elected without the store")
        );
        // A group without a store can't require one.
        let majority = Quorums::majority(5);
        assert_eq!(majority.requiring_store(), majority);
    }

    #[test]
    fn any_two_quorums_share_a_voter_and_a_larger_k_is_refused() {
        for members in 1..=9 {
            assert!(!can_be_disjoint(members, Quorums::majority(members)));
            for k in 0..=members + 1 {
                let quorums = Quorums::fallback(members, k);
                assert_eq!(quorums.is_ok(), (1..=members.div_ceil(2)).contains(&k));
                if let Ok(quorums) = quorums {
                    assert!(!can_be_disjoint(members, quorums), "{members} {k}");
                } else if (1..members).contains(&k) {
                    let refused = Quorums {
                        with_store: Some(k),
                        without_store: members - k + 1,
                        requires_store: false,
                    };
                    assert!(can_be_disjoint(members, refused), "{members} {k}");
                }
            }
        }
    }

    #[test]
    fn the_default_is_the_largest_k_for_which_the_store_helps() {
        let defaults = [1, 2, 3, 4, 5, 6, 7].map(Quorums::default_k);
        assert_eq!(defaults, [1, 1, 1, 2, 2, 3, 3]);
        for members in 2..=31 {
            let k = Quorums::default_k(members);
            let helps = |k| Quorums::fallback(members, k).is_ok_and(|it| k < it.without_store());
            assert!(helps(k) && !helps(k + 1), "{members}");
        }
    }

    #[test]
    fn the_survived_losses_and_the_errors_are_told_in_words() {
        let three = Quorums::fallback(3, 1).unwrap();
        assert_eq!(
            three.survives(3),
            "while the store answers, a leader needs 1 of 3 members and the group survives the loss of 2 \
             members; while it does not, a leader needs 3 and the group survives the loss of no member"
        );
        for (k, reason) in [
            (0, "own promise"),
            (3, "two single members"),
            (9, "more members"),
        ] {
            let error = Quorums::fallback(3, k).unwrap_err().to_string();
            assert!(error.contains("must be 1 to 2 with 3 members"), "{error}");
            assert!(error.contains(reason), "{error}");
        }
    }
}

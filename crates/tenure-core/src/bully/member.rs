//! The members of a group.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{GroupGuarantee, NodeId};

/// The largest number of members of one election. Each member sends messages to all others, and a
/// larger quorum is slower and hardly safer.
pub const MAX_MEMBERS: usize = 31;

/// The largest group for which relays are recommended. In a ring of seven, a search costs 8 requests
/// and the messages of an election cost several hundred; both grow with the number of links.
pub const RECOMMENDED_RELAY_MEMBERS: usize = 10;

/// A member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The node id.
    pub id: NodeId,
    /// The rank: **lower is better**. Members of equal rank are ordered by node id, lower first.
    pub priority: u32,
}

/// All members, best first. The list must be the same on every member. A quorum is a majority of
/// this list, not of the members that happen to answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Membership(Vec<Member>);

impl Membership {
    /// Creates a membership from these members, in any order.
    ///
    /// # Errors
    ///
    /// [`MembershipError`] if there are no members or too many, or if two members have the same
    /// node id.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Result<Self, MembershipError> {
        Self::of_at_most(MAX_MEMBERS, members)
    }

    /// Creates a membership without an upper limit, for simulations. In production an election has
    /// at most [`MAX_MEMBERS`].
    ///
    /// # Errors
    ///
    /// [`MembershipError`] if there are no members, or if two members have the same node id.
    pub fn of_any_size(members: impl IntoIterator<Item = Member>) -> Result<Self, MembershipError> {
        Self::of_at_most(usize::MAX, members)
    }

    fn of_at_most(
        most: usize,
        members: impl IntoIterator<Item = Member>,
    ) -> Result<Self, MembershipError> {
        let mut members: Vec<Member> = members.into_iter().collect();
        if members.is_empty() || members.len() > most {
            return Err(MembershipError::Size {
                members: members.len(),
            });
        }
        members.sort_by_key(|member| member.id);
        if let Some(pair) = members.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(MembershipError::Twice {
                id: pair[0].id,
                priorities: (pair[0].priority, pair[1].priority),
            });
        }
        members.sort_by_key(|member| (member.priority, member.id));
        Ok(Self(members))
    }

    /// Returns the number of members.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a membership is never empty")]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of members that form a majority.
    #[must_use]
    pub const fn majority(&self) -> usize {
        self.0.len() / 2 + 1
    }

    /// Returns how many members may fail while a majority remains.
    #[must_use]
    pub const fn tolerated_failures(&self) -> usize {
        self.0.len() - self.majority()
    }

    /// Returns whether the node is a member.
    #[must_use]
    pub fn contains(&self, id: NodeId) -> bool {
        self.place(id).is_some()
    }

    /// Returns all members, best first.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.0.iter().map(|member| member.id)
    }

    /// Returns all members except this one, best first.
    pub fn others(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.iter().filter(move |&other| other != id)
    }

    /// Returns the members that are better than this one, best first.
    pub fn better(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.iter().take(self.place(id).unwrap_or_default())
    }

    /// Returns the members that are worse than this one, best first.
    pub fn worse(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.iter()
            .skip(self.place(id).map_or(0, |place| place + 1))
    }

    /// Returns whether `one` is better than `other`.
    #[must_use]
    pub fn is_better(&self, one: NodeId, other: NodeId) -> bool {
        self.place(one) < self.place(other)
    }

    /// Returns the default guarantee for this number of members. With three or more members, a
    /// majority remains after the loss of one, so the default is a quorum. With two members, the
    /// loss of one would leave no majority.
    #[must_use]
    pub const fn default_guarantee(members: usize) -> GroupGuarantee {
        if members >= 3 {
            GroupGuarantee::Quorum
        } else {
            GroupGuarantee::BestEffort
        }
    }

    /// Returns a warning for the operator if the configuration works but is probably not intended.
    #[must_use]
    pub fn warning(&self, guarantee: GroupGuarantee) -> Option<String> {
        let (members, tolerated) = (self.len(), self.tolerated_failures());
        match guarantee {
            GroupGuarantee::BestEffort if members == 1 => None,
            GroupGuarantee::BestEffort => Some(format!(
                "without a quorum each part of a partitioned network may have its own leader ({members} members)"
            )),
            GroupGuarantee::Quorum if members == 2 => Some(
                "with 2 members and a quorum there is no leader while one is down; add a third member"
                    .into(),
            ),
            // A group with one member fewer would tolerate the same number of failures.
            GroupGuarantee::Quorum if members.is_multiple_of(2) => Some(format!(
                "{members} members tolerate the loss of {tolerated}, as many as {} would; use an odd number",
                members - 1
            )),
            GroupGuarantee::Quorum => None,
        }
    }

    fn place(&self, id: NodeId) -> Option<usize> {
        self.0.iter().position(|member| member.id == id)
    }
}

/// The reason why members cannot form a membership. The operator must change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// There are no members, or more than [`MAX_MEMBERS`].
    #[error("an election must have 1 to {MAX_MEMBERS} members and this one has {members}")]
    Size {
        /// The number of members.
        members: usize,
    },
    /// Two members have the same node id, so they would vote as one.
    #[error(
        "member {id} is listed twice, with the priorities {} and {}; ids must be unique",
        priorities.0, priorities.1
    )]
    Twice {
        /// The node id.
        id: NodeId,
        /// The priorities of the two members.
        priorities: (u32, u32),
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn of(members: &[(u32, u32)]) -> Result<Membership, MembershipError> {
        let member = |&(id, priority)| Member {
            id: NodeId(id),
            priority,
        };
        Membership::new(members.iter().map(member))
    }

    #[test]
    fn a_lower_priority_is_better_and_equal_ones_are_ordered_by_node_id() {
        let members = of(&[(1, 50), (2, 10), (3, 10)]).unwrap();
        let ids: Vec<u32> = members.iter().map(|id| id.0).collect();
        assert_eq!(ids, [2, 3, 1]);
        assert!(members.is_better(NodeId(2), NodeId(3)));
        assert_eq!(members.better(NodeId(3)).collect::<Vec<_>>(), [NodeId(2)]);
        assert_eq!(members.worse(NodeId(3)).collect::<Vec<_>>(), [NodeId(1)]);
        assert_eq!(members.others(NodeId(3)).count(), 2);
    }

    #[test]
    fn impossible_memberships_are_refused_with_the_reason() {
        assert_eq!(
            of(&[]).unwrap_err().to_string(),
            "an election must have 1 to 31 members and this one has 0"
        );
        assert_eq!(
            of(&[(7, 1), (8, 1), (7, 2)]).unwrap_err().to_string(),
            "member 7 is listed twice, with the priorities 1 and 2; ids must be unique"
        );
        let many: Vec<_> = (0..32).map(|id| (id, 0)).collect();
        assert!(matches!(
            of(&many),
            Err(MembershipError::Size { members: 32 })
        ));
        let many = (0..1_000).map(|id| Member {
            id: NodeId(id),
            priority: 0,
        });
        assert_eq!(Membership::of_any_size(many).map(|it| it.len()), Ok(1_000));
    }

    #[test]
    fn a_quorum_is_the_default_from_three_members_on_and_odd_sizes_have_no_warning() {
        for (members, majority, guarantee, warned) in [
            (1, 1, GroupGuarantee::BestEffort, false),
            (2, 2, GroupGuarantee::BestEffort, true),
            (3, 2, GroupGuarantee::Quorum, false),
            (4, 3, GroupGuarantee::Quorum, true),
            (5, 3, GroupGuarantee::Quorum, false),
        ] {
            let members: Vec<_> = (0..members).map(|id| (id, 0)).collect();
            let members = of(&members).unwrap();
            assert_eq!(members.majority(), majority);
            assert_eq!(Membership::default_guarantee(members.len()), guarantee);
            assert_eq!(members.warning(guarantee).is_some(), warned);
        }
        let two = of(&[(1, 0), (2, 0)]).unwrap();
        let warning = two.warning(GroupGuarantee::Quorum).unwrap();
        assert!(warning.contains("add a third member"), "{warning}");
    }
}

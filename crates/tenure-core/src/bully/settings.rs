//! The settings of a member.

use super::{GroupGuarantee, GroupTimings, Membership, NodeId, Quorums};
use crate::Incarnation;
use crate::detector::Group;

/// The settings of a member: its node id, its group and its rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupSettings {
    pub(super) me: NodeId,
    pub(super) members: Membership,
    pub(super) timings: GroupTimings,
    guarantee: GroupGuarantee,
    pub(super) quorums: Quorums,
    preempt: bool,
}

impl GroupSettings {
    /// Creates the settings of member `me`, with a quorum from three members on
    /// ([`Membership::default_guarantee`]) and without preemption.
    ///
    /// # Errors
    ///
    /// [`NotAMember`] if `me` is not one of the members.
    pub fn new(me: NodeId, members: Membership, timings: GroupTimings) -> Result<Self, NotAMember> {
        if !members.contains(me) {
            return Err(NotAMember { me });
        }
        Ok(Self {
            me,
            guarantee: Membership::default_guarantee(members.len()),
            quorums: Quorums::majority(members.len()),
            members,
            timings,
            preempt: false,
        })
    }

    /// Sets the guarantee. It must be the same on all members.
    #[must_use]
    pub fn with_guarantee(self, guarantee: GroupGuarantee) -> Self {
        Self { guarantee, ..self }
    }

    /// Sets the quorums of a group with a store as a voter, which also makes a quorum necessary. The
    /// quorums must be the same on all members.
    #[must_use]
    pub fn with_quorums(self, quorums: Quorums) -> Self {
        Self {
            guarantee: GroupGuarantee::Quorum,
            quorums,
            ..self
        }
    }

    /// Sets whether this member replaces a worse member that leads and works, once this member has
    /// followed it for the hold-down. Default: no, so that a member that restarts often does not
    /// move leadership each time. (The algorithm of the papers replaces the leader at once.)
    #[must_use]
    pub fn with_preempt(self, preempt: bool) -> Self {
        Self { preempt, ..self }
    }

    /// Returns the guarantee of an election with these settings.
    #[must_use]
    pub const fn guarantee(&self) -> GroupGuarantee {
        self.guarantee
    }

    /// Returns the sets of voters that elect a leader, if a quorum is necessary.
    #[must_use]
    pub const fn quorums(&self) -> &Quorums {
        &self.quorums
    }

    /// Returns whether this member replaces a working leader that is worse.
    #[must_use]
    pub const fn preempt(&self) -> bool {
        self.preempt
    }

    /// Returns the node id of this member.
    #[must_use]
    pub const fn me(&self) -> NodeId {
        self.me
    }

    /// Returns all members.
    #[must_use]
    pub const fn members(&self) -> &Membership {
        &self.members
    }

    /// Returns the members as a failure detector needs them, for this incarnation of the member.
    #[must_use]
    pub fn group(&self, incarnation: Incarnation) -> Group {
        Group::new(self.me, incarnation, self.members.iter())
    }

    /// Returns the timings.
    #[must_use]
    pub const fn timings(&self) -> &GroupTimings {
        &self.timings
    }

    /// Returns a warning for the operator, if there is one.
    #[must_use]
    pub fn warning(&self) -> Option<alloc::string::String> {
        self.members.warning(self.guarantee)
    }
}

/// The member is not in the list of members. The operator must add it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("member {me} is not in the list of members")]
pub struct NotAMember {
    /// The node id of the missing member.
    pub me: NodeId,
}

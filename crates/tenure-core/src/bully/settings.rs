//! The settings of a member.

use super::{GroupGuarantee, GroupTimings, Membership, NodeId};
use crate::Incarnation;
use crate::detector::Group;

/// A repair of the published algorithm. A test may leave it out, to see what it is for.
#[cfg(any(test, feature = "mutations"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DisabledRule {
    /// One worse member after the other is halted, in the order of their ranks.
    OneAfterTheOther,
    /// The test for completion is made wherever a member is accounted for, not only on an `Ack`.
    CompletionEverywhere,
    /// A round of questions that a better member has voided is asked again.
    AskAgain,
    /// A `Halt` without an answer is sent again.
    HaltAgain,
    /// An `Ack` counts only for the election that it names.
    MatchAck,
    /// Every election has a number of its own.
    FreshElection,
    /// A member that waits for or follows a better member refuses a `Halt`.
    Refuse,
    /// An acceptance is on disk before it is acknowledged.
    DurablePromise,
    /// A leader that meets another one acts on it.
    Conflict,
    /// All better members must be down in one and the same round.
    SameRound,
    /// A `Halt` that was accepted before is not accepted again.
    ObeyOnce,
    /// A leader that works stays in place: it refuses, and so do its followers.
    Spare,
    /// A member that comes late joins the leader, without a new election.
    Join,
    /// A detector's answer counts only for the question that it answers.
    OwnRound,
    /// A leader that learns of a greater epoch than its own begins a new term.
    GreaterEpoch,
    /// A follower that is better than its leader also notices when it is gone.
    MissAnyLeader,
    /// With a quorum: a promise binds.
    Promise,
    /// With a quorum: a promise outlives a restart.
    Quarantine,
    /// With a quorum: a majority is needed.
    Majority,
    /// With a quorum: a term counts from when it was asked for, not from when it was granted.
    CountFromRequest,
    /// With a quorum: a renewal counts from when it was asked for, not from its answer.
    CountFromRound,
    /// With a quorum: a release is for the epoch that it names.
    ReleaseOwn,
}

/// The settings of a member: its number, its group and its rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupSettings {
    pub(super) me: NodeId,
    pub(super) members: Membership,
    pub(super) timings: GroupTimings,
    guarantee: GroupGuarantee,
    preempt: bool,
    #[cfg(any(test, feature = "mutations"))]
    pub(super) without: alloc::vec::Vec<DisabledRule>,
}

impl GroupSettings {
    /// The settings of member `me`, with a quorum from three members on
    /// ([`Membership::default_guarantee`]) and without preemption.
    ///
    /// # Errors
    ///
    /// [`NotAMember`] if `me` is none of the members.
    pub fn new(me: NodeId, members: Membership, timings: GroupTimings) -> Result<Self, NotAMember> {
        if !members.contains(me) {
            return Err(NotAMember { me });
        }
        Ok(Self {
            me,
            guarantee: Membership::default_guarantee(members.len()),
            members,
            timings,
            preempt: false,
            #[cfg(any(test, feature = "mutations"))]
            without: alloc::vec::Vec::new(),
        })
    }

    /// Sets the guarantee. All members must have the same.
    #[must_use]
    pub fn with_guarantee(self, guarantee: GroupGuarantee) -> Self {
        Self { guarantee, ..self }
    }

    /// Whether this member takes the place of a worse one that leads and works, once it has followed
    /// it for the hold-down. Default: no, so that a member that comes and goes does not move
    /// leadership each time. (The papers' algorithm does it at once.)
    #[must_use]
    pub fn with_preempt(self, preempt: bool) -> Self {
        Self { preempt, ..self }
    }

    /// Leaves a repair out.
    #[cfg(any(test, feature = "mutations"))]
    #[must_use]
    pub fn without(mut self, fix: DisabledRule) -> Self {
        self.without.push(fix);
        self
    }

    /// The guarantee of an election with these settings.
    #[must_use]
    pub const fn guarantee(&self) -> GroupGuarantee {
        self.guarantee
    }

    /// Whether this member takes a working leader's place.
    #[must_use]
    pub const fn preempt(&self) -> bool {
        self.preempt
    }

    /// The member.
    #[must_use]
    pub const fn me(&self) -> NodeId {
        self.me
    }

    /// All members.
    #[must_use]
    pub const fn members(&self) -> &Membership {
        &self.members
    }

    /// The members as a failure detector sees them, in this start of the member.
    #[must_use]
    pub fn group(&self, incarnation: Incarnation) -> Group {
        Group::new(self.me, incarnation, self.members.iter())
    }

    /// The timings.
    #[must_use]
    pub const fn timings(&self) -> &GroupTimings {
        &self.timings
    }

    /// A warning for the operator.
    #[must_use]
    pub fn warning(&self) -> Option<alloc::string::String> {
        self.members.warning(self.guarantee)
    }
}

/// Whether a repair is left out. Without the feature `mutations` all repairs are in.
macro_rules! mutation {
    ($settings:expr, $fix:ident) => {{
        #[cfg(any(test, feature = "mutations"))]
        let is_mutated = $settings
            .without
            .contains(&$crate::bully::DisabledRule::$fix);
        #[cfg(not(any(test, feature = "mutations")))]
        let is_mutated = false;
        is_mutated
    }};
}
pub(super) use mutation;

/// The member is not in the list of members. The operator must add it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("member {me} is not in the list of members")]
pub struct NotAMember {
    /// The member.
    pub me: NodeId,
}

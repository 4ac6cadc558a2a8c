//! The settings of a member.

use super::{GroupGuarantee, GroupTimings, Membership, NodeId, Quorums};
use crate::Incarnation;
use crate::detector::Group;

/// A repair of the published algorithm. A test may disable it, to show what fails without it.
#[cfg(any(test, feature = "mutations"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DisabledRule {
    /// Worse members are halted one after the other, in the order of their ranks.
    OneAfterTheOther,
    /// The check for completion runs after every change of a worse member's state, not only after
    /// an `Ack`.
    CompletionEverywhere,
    /// A round of questions that found a better member up is repeated.
    AskAgain,
    /// A `Halt` without an answer is repeated.
    HaltAgain,
    /// An `Ack` counts only for the election that it names.
    MatchAck,
    /// Every election has a number that is unique for its organiser.
    FreshElection,
    /// A member that waits for or follows a better member refuses a `Halt`.
    Refuse,
    /// The acceptance of an election is on disk before it is acknowledged.
    DurablePromise,
    /// A leader that learns of another leader follows it or makes it follow.
    Conflict,
    /// All better members must be down in the same round.
    SameRound,
    /// A `Halt` that was accepted before is not accepted again.
    ObeyOnce,
    /// A working leader keeps its position: it refuses a `Halt`, and so do its followers.
    Spare,
    /// A member that starts late joins the leader without a new election.
    Join,
    /// An answer of the detector counts only for the question that it answers.
    OwnRound,
    /// A leader that learns of a greater epoch than its own begins a new term.
    GreaterEpoch,
    /// A follower that is better than its leader also notices when the leader is gone.
    MissAnyLeader,
    /// With a quorum: a promise binds.
    Promise,
    /// With a quorum: a promise outlives a restart.
    Quarantine,
    /// With a quorum: a majority is needed.
    Majority,
    /// With a quorum: a term counts from the request for votes, not from the votes.
    CountFromRequest,
    /// With a quorum: a renewal counts from its request, not from its answer.
    CountFromRound,
    /// With a quorum: a release ends only the promise of the epoch that it names.
    ReleaseOwn,
    /// With a fallback: any two quorums share a voter.
    Intersection,
    /// With a fallback: members must promise beside the store.
    MembersBesideStore,
    /// With a fallback: the store's promise counts from its request, not from its answer.
    CountFromStoreRequest,
    /// With a fallback: a member that promises another candidate leaves the store's queue, and a
    /// grant of the store does not count for it.
    ClaimUnbound,
    /// With a fallback: a grant of the store counts only if its epoch is above the member's own
    /// promises.
    ClaimAbovePromise,
    /// With a fallback: a promise that the store has taken back counts no more.
    StorePromiseEnds,
    /// With a fallback: a candidate that has promised another one leaves the store's queue.
    LeaveQueue,
    /// With a quorum: a member's promise to itself binds it.
    OwnPromise,
    /// With a quorum: a promise is for one process of a member, and another process of that member
    /// is another candidate.
    SameProcess,
}

/// The settings of a member: its node id, its group and its rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupSettings {
    pub(super) me: NodeId,
    pub(super) members: Membership,
    pub(super) timings: GroupTimings,
    guarantee: GroupGuarantee,
    pub(super) quorums: Quorums,
    preempt: bool,
    #[cfg(any(test, feature = "mutations"))]
    pub(super) without: alloc::vec::Vec<DisabledRule>,
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
            #[cfg(any(test, feature = "mutations"))]
            without: alloc::vec::Vec::new(),
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

    /// Disables a repair.
    #[cfg(any(test, feature = "mutations"))]
    #[must_use]
    pub fn without(mut self, fix: DisabledRule) -> Self {
        self.without.push(fix);
        self
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

/// Evaluates to `true` if a repair is disabled. Without the feature `mutations` all repairs are
/// enabled.
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
    /// The node id of the missing member.
    pub me: NodeId,
}

//! Bugs that a test build can enable, to check that the simulation catches them.

use std::fmt::{self, Write};

#[cfg(feature = "mutations")]
use tenure_core::bully::DisabledRule;
#[cfg(feature = "mutations")]
use tenure_core::ownership::DisabledOwnershipRule;

/// A bug. Real systems of this kind have had each of these bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutation {
    /// A candidate counts its term from the answer instead of the request.
    DeadlineFromReply,
    /// A store forgets at a restart which candidate holds the lease.
    LeasesForgotten,
    /// A store measures leases with the wall clock.
    WallClockExpiry,
    /// A store keeps the last epoch in memory only.
    EpochInMemory,
    /// A store releases the lease for any lease id.
    ReleaseWithoutId,
    /// A store answers before the change is on disk.
    AnswerBeforeDisk,
    /// A store renews a term that is over, for any candidate that held the lease.
    RenewAfterRegrant,
    /// A store collects the expired leases and ends them a little later without a second check.
    LateSweep,
    /// A candidate uses a new lease id for every retry.
    FreshIdOnRetry,
    /// The store's lease is no longer than the candidate's term.
    NoMargin,
    /// A store grants the lease to an id whose term is over.
    RetiredIdGranted,
    /// A store takes back the grant of a waiting request that was given up, although the answer to
    /// another request has confirmed the grant to the holder.
    GiveBackUnchecked,
    /// The task can block renewals and the watchdog.
    RenewerOnTaskRuntime,
    /// A candidate releases the lease when it cancels its task, and not when the task has ended.
    ReleaseBeforeTaskEnd,
    /// A candidate's clock does not count suspensions.
    ClockStopsWhenSuspended,
    /// A member's votes are in memory only.
    VoteForgotten,
    /// A member sends a promise before the promise is on disk.
    SayBeforeDisk,
    /// An organiser halts all worse members at once, and a member that has accepted it also accepts
    /// a worse organiser.
    ObeyAnybody,
    /// The same, but a member accepts a worse organiser only after a restart, because it has
    /// forgotten the better one.
    ObeyedForgotten,
    /// An organiser counts an acknowledgement of any election, even of an old one.
    AckOfAny,
    /// A member stays on the down list until its recovery notice arrives, and the notice is sent
    /// only once.
    StaleDownList,
    /// A member that has restarted sends no recovery notice.
    NoNotice,
    /// A member sends no heartbeats to the members that subscribe to them.
    SubscriptionsIgnored,
    /// The detector reports a member as down late, when the member may be up again, and the verdict
    /// counts for any later question.
    LateVerdict,
    /// Two leaders that learn of each other both continue.
    BlindLeaders,
    /// A candidate by both leads with the lease alone.
    PeersIgnored,
    /// A candidate by both leads among the peers alone.
    LeaseIgnored,
    /// A candidate by both leads although the granted epoch differs from the requested one.
    GrantOfAnyEpoch,
    /// A store lets a term take the lease again under its epoch, although it has granted the lease
    /// to another request meanwhile.
    ResumeAfterRegrant,
    /// A shared log applies an append although another head stands in it than the expected one.
    UnfencedAppend,
    /// A server undoes a batch after a definite failure, although an earlier attempt of the append
    /// is unknown.
    UndoAfterUnknown,
    /// A server that takes over forgets the last epoch.
    FloorLostAtTakeOver,
    /// A server reads the clock before it looks at the lease, and is paused between the two.
    CheckBeforeLook,
    /// A server that takes over counts revisions from the beginning.
    RevisionRestarts,
    /// A server that loads prefers the place of a lease to later changes of it in the log.
    OlderPlaceWins,
    /// A server that loads prefers a batch that it has copied earlier to the place of the lease, which
    /// may have later changes.
    OlderBatchWins,
    /// A server that takes over counts leases from when it saw the last head of the owner.
    GraceFromSighting,
    /// A member ignores one rule of its algorithm.
    #[cfg(feature = "mutations")]
    Without(DisabledRule),
    /// A server ignores one rule of ownership.
    #[cfg(feature = "mutations")]
    OwnedWithout(DisabledOwnershipRule),
}

#[cfg(feature = "mutations")]
impl Mutation {
    /// Returns the rules that members ignore.
    #[must_use]
    pub fn without(self) -> Vec<DisabledRule> {
        match self {
            Self::Without(rule) => vec![rule],
            Self::ObeyAnybody => vec![DisabledRule::OneAfterTheOther, DisabledRule::Refuse],
            Self::ObeyedForgotten => {
                vec![DisabledRule::OneAfterTheOther, DisabledRule::DurablePromise]
            }
            Self::AckOfAny => vec![DisabledRule::MatchAck],
            Self::LateVerdict => vec![DisabledRule::OwnRound],
            Self::BlindLeaders => vec![DisabledRule::Conflict, DisabledRule::GreaterEpoch],
            _ => Vec::new(),
        }
    }

    /// Returns the rule of ownership that servers ignore.
    #[must_use]
    pub const fn of_ownership(self) -> Option<DisabledOwnershipRule> {
        match self {
            Self::OwnedWithout(rule) => Some(rule),
            Self::UndoAfterUnknown => Some(DisabledOwnershipRule::UndoOnlyKnown),
            _ => None,
        }
    }
}

/// Writes the name on the command line: the name of the variant in lower case, with hyphens.
impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = format!("{self:?}");
        for (place, letter) in variant.char_indices().filter(|(_, it)| it.is_alphabetic()) {
            if letter.is_uppercase() && place > 0 {
                f.write_char('-')?;
            }
            f.write_char(letter.to_ascii_lowercase())?;
        }
        Ok(())
    }
}

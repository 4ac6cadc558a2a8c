//! Bugs that can be switched on, to check that the simulation catches them.

use std::fmt::{self, Write};

#[cfg(feature = "mutations")]
use tenure_core::bully::DisabledRule;

/// A bug. Systems of this kind have been built with each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutation {
    /// A candidate counts its term from the answer, not from the request.
    DeadlineFromReply,
    /// A store forgets at a restart which candidate holds the lease.
    LeasesForgotten,
    /// A store counts leases by the wall clock.
    WallClockExpiry,
    /// A store numbers terms in memory only.
    EpochInMemory,
    /// A store releases the lease for any lease id.
    ReleaseWithoutId,
    /// A store answers before the disk has it.
    AnswerBeforeDisk,
    /// A store renews a term that is over, for any holder.
    RenewAfterRegrant,
    /// A store collects the expired leases and ends them a little later without a second check.
    LateSweep,
    /// A candidate takes a new lease id whenever it asks again.
    FreshIdOnRetry,
    /// The store's lease is no longer than the candidate's term.
    NoMargin,
    /// A store grants the lease to an id whose term is over.
    RetiredIdGranted,
    /// A store takes back the grant of a waiting request that was given up, although another request
    /// has reported it to the holder.
    GiveBackUnchecked,
    /// The task can keep renewals and the watchdog from running.
    RenewerOnTaskRuntime,
    /// A candidate releases the lease when it tells its task to stop, and not when the task has ended.
    ReleaseBeforeTaskEnd,
    /// A candidate's clock does not count suspensions.
    ClockStopsWhenSuspended,
    /// A member's votes are in memory only.
    VoteForgotten,
    /// A member sends a promise before it is on its disk.
    SayBeforeDisk,
    /// An organiser halts all worse members at once, and a member that has obeyed it also obeys a worse
    /// organiser.
    ObeyAnybody,
    /// The same, but a member obeys a worse organiser only after a restart, at which it forgets the
    /// better one.
    ObeyedForgotten,
    /// An organiser counts an acknowledgement of any election, however old it is.
    AckOfAny,
    /// A member stays on the down list until its recovery notice comes, which is sent only once.
    StaleDownList,
    /// A member that is back sends no recovery notice.
    NoNotice,
    /// The detector reports a member as down late, when the member may be back, and the verdict counts
    /// for any later question.
    LateVerdict,
    /// Two leaders that learn of each other both go on.
    BlindLeaders,
    /// A candidate by both leads with the lease alone.
    PeersIgnored,
    /// A candidate by both leads among the peers alone.
    LeaseIgnored,
    /// A candidate by both leads although the store has granted another epoch than it asked for.
    GrantOfAnyEpoch,
    /// A member ignores one rule of its algorithm.
    #[cfg(feature = "mutations")]
    Without(DisabledRule),
}

#[cfg(feature = "mutations")]
impl Mutation {
    /// The rules that members ignore.
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
}

/// Its name on the command line: the name of the variant in lower case, with hyphens.
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

//! Bugs that can be switched on, to check that the simulation catches them.

use std::fmt;

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

impl Mutation {
    /// All of them; none in a build without the feature `mutations`.
    #[cfg(not(feature = "mutations"))]
    pub const ALL: &[Self] = &[];

    /// All of them; none in a build without the feature `mutations`.
    #[cfg(feature = "mutations")]
    pub const ALL: &[Self] = &[
        Self::DeadlineFromReply,
        Self::LeasesForgotten,
        Self::WallClockExpiry,
        Self::EpochInMemory,
        Self::ReleaseWithoutId,
        Self::AnswerBeforeDisk,
        Self::RenewAfterRegrant,
        Self::LateSweep,
        Self::FreshIdOnRetry,
        Self::NoMargin,
        Self::RetiredIdGranted,
        Self::GiveBackUnchecked,
        Self::RenewerOnTaskRuntime,
        Self::ReleaseBeforeTaskEnd,
        Self::ClockStopsWhenSuspended,
        Self::VoteForgotten,
        Self::SayBeforeDisk,
        Self::ObeyAnybody,
        Self::ObeyedForgotten,
        Self::AckOfAny,
        Self::StaleDownList,
        Self::NoNotice,
        Self::LateVerdict,
        Self::BlindLeaders,
        Self::PeersIgnored,
        Self::LeaseIgnored,
        Self::GrantOfAnyEpoch,
        Self::Without(DisabledRule::OneAfterTheOther),
        Self::Without(DisabledRule::CompletionEverywhere),
        Self::Without(DisabledRule::AskAgain),
        Self::Without(DisabledRule::HaltAgain),
        Self::Without(DisabledRule::FreshElection),
        Self::Without(DisabledRule::SameRound),
        Self::Without(DisabledRule::ObeyOnce),
        Self::Without(DisabledRule::OwnRound),
        Self::Without(DisabledRule::Spare),
        Self::Without(DisabledRule::Join),
        Self::Without(DisabledRule::MissAnyLeader),
        Self::Without(DisabledRule::DurablePromise),
        Self::Without(DisabledRule::Promise),
        Self::Without(DisabledRule::Quarantine),
        Self::Without(DisabledRule::Majority),
        Self::Without(DisabledRule::CountFromRequest),
        Self::Without(DisabledRule::CountFromRound),
        Self::Without(DisabledRule::ReleaseOwn),
    ];

    /// The rules that members ignore.
    #[cfg(feature = "mutations")]
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

    /// The mutation of this name.
    ///
    /// # Errors
    ///
    /// [`UnknownMutation`], with the nearest name that there is.
    pub fn of_name(name: &str) -> Result<Self, UnknownMutation> {
        if Self::ALL.is_empty() {
            return Err(UnknownMutation::NotBuilt);
        }
        let found = Self::ALL.iter().find(|mutation| mutation.name() == name);
        found.copied().ok_or_else(|| UnknownMutation::Unknown {
            name: name.into(),
            nearest: crate::nearest(name, Self::ALL.iter().map(ToString::to_string)),
        })
    }

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeadlineFromReply => "deadline-from-reply",
            Self::LeasesForgotten => "leases-forgotten",
            Self::WallClockExpiry => "wall-clock-expiry",
            Self::EpochInMemory => "epoch-in-memory",
            Self::ReleaseWithoutId => "release-without-id",
            Self::AnswerBeforeDisk => "answer-before-disk",
            Self::RenewAfterRegrant => "renew-after-regrant",
            Self::LateSweep => "late-sweep",
            Self::FreshIdOnRetry => "fresh-id-on-retry",
            Self::NoMargin => "no-margin",
            Self::RetiredIdGranted => "retired-id-granted",
            Self::GiveBackUnchecked => "give-back-unchecked",
            Self::RenewerOnTaskRuntime => "renewer-on-task-runtime",
            Self::ReleaseBeforeTaskEnd => "release-before-task-end",
            Self::ClockStopsWhenSuspended => "clock-stops-when-suspended",
            Self::VoteForgotten => "vote-forgotten",
            Self::SayBeforeDisk => "say-before-disk",
            Self::ObeyAnybody => "obey-anybody",
            Self::ObeyedForgotten => "obeyed-forgotten",
            Self::AckOfAny => "ack-of-any",
            Self::StaleDownList => "stale-down-list",
            Self::NoNotice => "no-notice",
            Self::LateVerdict => "late-verdict",
            Self::BlindLeaders => "blind-leaders",
            Self::PeersIgnored => "peers-ignored",
            Self::LeaseIgnored => "lease-ignored",
            Self::GrantOfAnyEpoch => "grant-of-any-epoch",
            #[cfg(feature = "mutations")]
            Self::Without(rule) => match rule {
                DisabledRule::OneAfterTheOther => "without-one-after-the-other",
                DisabledRule::CompletionEverywhere => "without-completion-everywhere",
                DisabledRule::AskAgain => "without-ask-again",
                DisabledRule::HaltAgain => "without-halt-again",
                DisabledRule::MatchAck => "without-match-ack",
                DisabledRule::FreshElection => "without-fresh-election",
                DisabledRule::Refuse => "without-refuse",
                DisabledRule::DurablePromise => "without-durable-promise",
                DisabledRule::Conflict => "without-conflict",
                DisabledRule::SameRound => "without-same-round",
                DisabledRule::ObeyOnce => "without-obey-once",
                DisabledRule::Spare => "without-spare",
                DisabledRule::Join => "without-join",
                DisabledRule::OwnRound => "without-own-round",
                DisabledRule::GreaterEpoch => "without-greater-epoch",
                DisabledRule::MissAnyLeader => "without-miss-any-leader",
                DisabledRule::Promise => "without-promise",
                DisabledRule::Quarantine => "without-quarantine",
                DisabledRule::Majority => "without-majority",
                DisabledRule::CountFromRequest => "without-count-from-request",
                DisabledRule::CountFromRound => "without-count-from-round",
                DisabledRule::ReleaseOwn => "without-release-own",
            },
        }
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no such mutation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownMutation {
    /// The name is wrong.
    #[error("there is no mutation {name:?}; did you mean {nearest:?}?")]
    Unknown {
        /// The unknown name.
        name: String,
        /// The nearest name that there is.
        nearest: String,
    },
    /// This build has no mutations.
    #[error(
        "this build has no mutations; for tests only: cargo run -p tenure-cli --features mutations \
         --bin tenure -- compare check --mutation NAME"
    )]
    NotBuilt,
}

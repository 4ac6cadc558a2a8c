//! Mistakes that can be made on purpose, to see whether they are found.

use std::fmt;

use tenure_core::bully::Fix;

/// A mistake. Each is one that such a system has been built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Planted {
    /// A candidate counts its term from the answer, not from the request.
    DeadlineFromReply,
    /// A store forgets at a restart who holds the lease.
    LeasesForgotten,
    /// A store counts leases by the wall clock.
    WallClockExpiry,
    /// A store numbers terms in memory only.
    EpochInMemory,
    /// A store releases whatever lease id is named.
    ReleaseWithoutId,
    /// A store answers before the disk has it.
    AnswerBeforeDisk,
    /// A store renews a term that is over for whoever asks.
    RenewAfterRegrant,
    /// A store looks which leases are over, and ends them a little later without looking again.
    LateSweep,
    /// A candidate takes a new lease id whenever it asks again.
    FreshIdOnRetry,
    /// The store's lease is no longer than the candidate's term.
    NoMargin,
    /// A store grants to a lease id whose term is over.
    RetiredIdGranted,
    /// The task can keep renewals and the watchdog from running.
    RenewerOnTaskRuntime,
    /// A candidate releases when it tells its task to stop, not when the task is gone.
    ReleaseBeforeTaskEnd,
    /// A candidate's clock does not count suspensions.
    ClockStopsWhenSuspended,
    /// A member's votes are in memory only.
    VoteForgotten,
    /// A member says what is not on its disk yet.
    SayBeforeDisk,
    /// A member is without one of the repairs of the published algorithm, or rules of the guard.
    Without(Fix),
}

impl Planted {
    /// All of them that concern lease mode.
    pub const LEASE: &[Self] = &[
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
        Self::RenewerOnTaskRuntime,
        Self::ReleaseBeforeTaskEnd,
        Self::ClockStopsWhenSuspended,
    ];

    /// Those that concern members under a quorum, and show in a storm.
    pub const QUORUM: &[Self] = &[
        Self::VoteForgotten,
        Self::ClockStopsWhenSuspended,
        Self::RenewerOnTaskRuntime,
        Self::Without(Fix::Promise),
        Self::Without(Fix::Quarantine),
        Self::Without(Fix::Majority),
    ];

    /// Those that concern members without a quorum, and show in a storm.
    pub const BEST_EFFORT: &[Self] = &[
        Self::Without(Fix::CompletionEverywhere),
        Self::Without(Fix::HaltAgain),
        Self::Without(Fix::ObeyOnce),
        Self::Without(Fix::FreshElection),
    ];

    /// Those that chance does not find in a few hundred storms: they need a few messages in one certain
    /// order. The models of `tenure_core::bully`, which try all orders, find all but the first
    /// and the last.
    pub const RARE: &[Self] = &[
        Self::SayBeforeDisk,
        Self::Without(Fix::CountFromRequest),
        Self::Without(Fix::CountFromRound),
        Self::Without(Fix::ReleaseOwn),
        Self::Without(Fix::OneAfterTheOther),
        Self::Without(Fix::AskAgain),
        Self::Without(Fix::MatchAck),
        Self::Without(Fix::Refuse),
        Self::Without(Fix::DurablePromise),
        Self::Without(Fix::Conflict),
        Self::Without(Fix::SameRound),
    ];

    /// The mistake of this name.
    ///
    /// # Errors
    ///
    /// [`UnknownMistake`], with the nearest name that there is.
    pub fn of_name(name: &str) -> Result<Self, UnknownMistake> {
        let all = || [Self::LEASE, Self::QUORUM, Self::BEST_EFFORT, Self::RARE].concat();
        let found = all().into_iter().find(|planted| planted.name() == name);
        found.ok_or_else(|| UnknownMistake {
            name: name.into(),
            nearest: crate::nearest(name, all().iter().map(ToString::to_string)),
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
            Self::RenewerOnTaskRuntime => "renewer-on-task-runtime",
            Self::ReleaseBeforeTaskEnd => "release-before-task-end",
            Self::ClockStopsWhenSuspended => "clock-stops-when-suspended",
            Self::VoteForgotten => "vote-forgotten",
            Self::SayBeforeDisk => "say-before-disk",
            Self::Without(fix) => match fix {
                Fix::OneAfterTheOther => "without-one-after-the-other",
                Fix::CompletionEverywhere => "without-completion-everywhere",
                Fix::AskAgain => "without-ask-again",
                Fix::HaltAgain => "without-halt-again",
                Fix::MatchAck => "without-match-ack",
                Fix::FreshElection => "without-fresh-election",
                Fix::Refuse => "without-refuse",
                Fix::DurablePromise => "without-durable-promise",
                Fix::Conflict => "without-conflict",
                Fix::SameRound => "without-same-round",
                Fix::ObeyOnce => "without-obey-once",
                Fix::Promise => "without-promise",
                Fix::Quarantine => "without-quarantine",
                Fix::Majority => "without-majority",
                Fix::CountFromRequest => "without-count-from-request",
                Fix::CountFromRound => "without-count-from-round",
                Fix::ReleaseOwn => "without-release-own",
            },
        }
    }
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no such mistake. The caller named it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no planted mistake {name:?}; did you mean {nearest:?}?")]
pub struct UnknownMistake {
    /// What was named.
    pub name: String,
    /// The nearest name that there is.
    pub nearest: String,
}

//! Mistakes that can be made on purpose, to see whether they are found.

use std::fmt;

#[cfg(feature = "mutations")]
use tenure_core::bully::Mutation;

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
    /// A store takes a grant back whose waiting request was given up, without asking whether another
    /// request has told the holder of it.
    GiveBackUnchecked,
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
    /// An organiser halts all worse members at once, and who has obeyed it obeys a worse one, too.
    ObeyAnybody,
    /// The same, but a worse one is obeyed only after a restart, which makes the better one forgotten.
    ObeyedForgotten,
    /// An organiser counts an acknowledgement of any election, however old it is.
    AckOfAny,
    /// A member of the down list is on it until its notice comes that it is back, which is sent once.
    StaleDownList,
    /// A member that is back does not say so.
    NoNotice,
    /// Who is down is told late, when it may be back, and counts whatever was asked since.
    LateVerdict,
    /// Leaders that meet go on, both of them, whoever is better and whichever epoch is greater.
    BlindLeaders,
    /// A member is without one of the repairs of the published algorithm, or rules of the guard.
    #[cfg(feature = "mutations")]
    Without(Mutation),
}

impl Planted {
    /// All of them; none where this build can't make any.
    #[cfg(not(feature = "mutations"))]
    pub const ALL: &[Self] = &[];

    /// All of them; none where this build can't make any.
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
        Self::Without(Mutation::OneAfterTheOther),
        Self::Without(Mutation::CompletionEverywhere),
        Self::Without(Mutation::AskAgain),
        Self::Without(Mutation::HaltAgain),
        Self::Without(Mutation::FreshElection),
        Self::Without(Mutation::SameRound),
        Self::Without(Mutation::ObeyOnce),
        Self::Without(Mutation::OwnRound),
        Self::Without(Mutation::Spare),
        Self::Without(Mutation::Join),
        Self::Without(Mutation::MissAnyLeader),
        Self::Without(Mutation::DurablePromise),
        Self::Without(Mutation::Promise),
        Self::Without(Mutation::Quarantine),
        Self::Without(Mutation::Majority),
        Self::Without(Mutation::CountFromRequest),
        Self::Without(Mutation::CountFromRound),
        Self::Without(Mutation::ReleaseOwn),
    ];

    /// Which repairs a member is without.
    #[cfg(feature = "mutations")]
    #[must_use]
    pub fn without(self) -> Vec<Mutation> {
        match self {
            Self::Without(fix) => vec![fix],
            Self::ObeyAnybody => vec![Mutation::OneAfterTheOther, Mutation::Refuse],
            Self::ObeyedForgotten => vec![Mutation::OneAfterTheOther, Mutation::DurablePromise],
            Self::AckOfAny => vec![Mutation::MatchAck],
            Self::LateVerdict => vec![Mutation::OwnRound],
            Self::BlindLeaders => vec![Mutation::Conflict, Mutation::GreaterEpoch],
            _ => Vec::new(),
        }
    }

    /// The mistake of this name.
    ///
    /// # Errors
    ///
    /// [`NoSuchMistake`], with the nearest name that there is.
    pub fn of_name(name: &str) -> Result<Self, NoSuchMistake> {
        if Self::ALL.is_empty() {
            return Err(NoSuchMistake::None);
        }
        let found = Self::ALL.iter().find(|planted| planted.name() == name);
        found.copied().ok_or_else(|| NoSuchMistake::Unknown {
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
            #[cfg(feature = "mutations")]
            Self::Without(fix) => match fix {
                Mutation::OneAfterTheOther => "without-one-after-the-other",
                Mutation::CompletionEverywhere => "without-completion-everywhere",
                Mutation::AskAgain => "without-ask-again",
                Mutation::HaltAgain => "without-halt-again",
                Mutation::MatchAck => "without-match-ack",
                Mutation::FreshElection => "without-fresh-election",
                Mutation::Refuse => "without-refuse",
                Mutation::DurablePromise => "without-durable-promise",
                Mutation::Conflict => "without-conflict",
                Mutation::SameRound => "without-same-round",
                Mutation::ObeyOnce => "without-obey-once",
                Mutation::Spare => "without-spare",
                Mutation::Join => "without-join",
                Mutation::OwnRound => "without-own-round",
                Mutation::GreaterEpoch => "without-greater-epoch",
                Mutation::MissAnyLeader => "without-miss-any-leader",
                Mutation::Promise => "without-promise",
                Mutation::Quarantine => "without-quarantine",
                Mutation::Majority => "without-majority",
                Mutation::CountFromRequest => "without-count-from-request",
                Mutation::CountFromRound => "without-count-from-round",
                Mutation::ReleaseOwn => "without-release-own",
            },
        }
    }
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no such mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchMistake {
    /// The caller named it.
    #[error("there is no planted mistake {name:?}; did you mean {nearest:?}?")]
    Unknown {
        /// What was named.
        name: String,
        /// The nearest name that there is.
        nearest: String,
    },
    /// This build can't make any.
    #[error(
        "this build makes no mistakes on purpose; one that does, for tests only: cargo run --features planted \
         --bin tenure -- compare check --planted ..."
    )]
    None,
}

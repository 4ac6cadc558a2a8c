//! Rules that a test may disable.

/// A rule of [`Ownership`](super::Ownership). A test may disable it, to show what fails without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DisabledOwnershipRule {
    /// The owner counts from the send of an append, not from its answer.
    CountFromSend,
    /// The owner counts a repeated append from its first send, not from its last one.
    CountFromFirstSend,
    /// The owner stops a margin before T has passed.
    Margin,
    /// The owner stops at its deadline.
    Deadline,
    /// A follower counts from the arrival of a read, not from when it was sent.
    ObserveFromArrival,
    /// A follower waits for the owner's T if it is longer than its own.
    OwnersDuration,
    /// A follower takes over only after its own reads have succeeded for a while.
    Settle,
    /// An append of unknown outcome is not taken for done.
    UnknownIsNotDone,
    /// An append is not undone while the outcome of one of its attempts is unknown.
    UndoOnlyKnown,
    /// The server accepts only after it has loaded the content.
    LoadFirst,
    /// A server that has resigned accepts nothing.
    ResignStops,
    /// A vacant head is taken over at once.
    TakeVacant,
    /// A head that is not a successor of the known one is not taken over.
    RefuseOlder,
    /// A server that has seen the log go back takes nothing over, whatever the log shows later.
    RefuseForGood,
    /// A head of another service is not taken over.
    RefuseOtherEngine,
}

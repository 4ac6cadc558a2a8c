//! Rules that a test may disable.

/// A rule of [`ForestNode`](super::ForestNode). A test may disable it, to show what fails without
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DisabledForestRule {
    /// A core that has ordered a join never wins.
    FrozenNeverWins,
    /// A core that has ordered a join does not raise its level.
    FrozenNeverRaises,
    /// Fragments compare whole labels, not levels.
    CompareLabels,
    /// A leader needs more than n/2 nodes, not n/2.
    StrictMajority,
    /// The count needs 2f + 1 tokens, not one.
    MoreThanOneToken,
    /// The count needs 2f + 1 tokens, not f + 1.
    TokensForBothEnds,
    /// The count needs 2f + 1 tokens, not 2f.
    OneTokenMore,
    /// The answer to a `Test` of a greater label waits until the own label has grown. Without this
    /// rule the answer leaves at once, and the tester counts the link as tested.
    Defer,
    /// A link inside a fragment stays rejected under later labels.
    RejectedStays,
    /// The announcement is sent on silent ports, too.
    TellSilent,
}

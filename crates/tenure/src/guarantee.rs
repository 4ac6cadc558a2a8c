//! What a strategy promises.

use crate::candidate::Candidate;

/// What the way in which a candidate is elected promises, from the strongest to the weakest.
///
/// With any of them a receiver that [checks epochs](crate::fence) keeps a stale leader's writes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guarantee {
    /// A store grants a lease to one candidate at a time, and numbers every reign. A leader stops by
    /// its own clock before another one may start, as long as the clocks of its machine and the
    /// store's differ in rate by less than the margin of the [`Timings`](crate::Timings). While the
    /// store can't be reached nobody is elected.
    FencedLease,
    /// A majority of the candidates agrees on the leader and on the number of its reign. Two leaders
    /// at a time need clocks that are off; a minority that is cut off has none.
    Quorum,
    /// The candidates that reach each other have one leader. When the network is parted each part
    /// may have its own, at the same time.
    BestEffort,
}

impl Candidate {
    /// What the strategy of this candidate promises: [`Guarantee::FencedLease`], for a candidate
    /// that competes for a lease in a store.
    #[must_use]
    pub const fn guarantee(&self) -> Guarantee {
        Guarantee::FencedLease
    }
}

//! What a strategy promises.

use crate::candidate::Candidate;

/// What the way in which a candidate is elected promises, from the strongest to the weakest.
///
/// With the first two a receiver that [checks epochs](crate::fence) keeps a stale leader's writes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guarantee {
    /// A store grants a lease to one candidate at a time, and numbers every reign. A leader stops by
    /// its own clock before another one may start, as long as the clocks of its machine and the
    /// store's differ in rate by less than the margin of the [`Timings`](crate::Timings). While the
    /// store can't be reached nobody is elected. It is also the promise of those who are elected in a
    /// store *and* among peers that have a quorum, and of those by the lease of a blob, who number their
    /// reigns themselves, under that lease.
    FencedLease,
    /// A majority of the members agrees on the leader and on the number of its reign. Two leaders at a
    /// time need clocks that differ in rate by more than the margin; a minority that is cut off has
    /// none.
    Quorum,
    /// The candidates that reach each other have one leader. When the network is parted, or a failure
    /// detector is wrong, each part may have its own at the same time, even under the same epoch.
    BestEffort,
}

impl Candidate {
    /// What the strategy of this candidate promises.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        self.driver.config.guarantee()
    }
}

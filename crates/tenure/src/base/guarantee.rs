//! The guarantees of the strategies.

/// The guarantee of a strategy, from the strongest to the weakest.
///
/// With the first three guarantees, a receiver that [checks epochs](crate::fence) rejects the writes
/// of a stale leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guarantee {
    /// A store grants the lease to one candidate at a time, and numbers each term. A leader stops,
    /// as measured by its own clock, before another leader may start, as long as the clocks of its
    /// machine and the store differ in rate by less than the margin of the
    /// [`Timings`](crate::Timings). While the store can't be reached there is no new leader. This
    /// is also the guarantee of `both` with a quorum, of `azure-blob`, where the candidate writes
    /// the epoch while it holds the lease, and of `kubernetes`, where the other candidates measure
    /// the lease on their own clocks.
    FencedLease,
    /// The store grants the lease to one candidate at a time as with
    /// [`FencedLease`](Self::FencedLease), and k of n members promise not to elect another one. Or
    /// n - k + 1 members without the store vote for the leader and its epoch. Any two of these
    /// groups have a voter in common, so two leaders at a time are possible only if clocks differ
    /// in rate by more than the margin. While the store can't be reached, the leader stays, or the
    /// members elect a new one.
    StoreOrMembers,
    /// A majority of the members votes for the leader and its epoch. Two leaders at a time are
    /// possible only if clocks differ in rate by more than the margin. A minority without contact
    /// to the majority has no leader.
    Quorum,
    /// Candidates that can reach each other have one leader. During a network partition, or if a
    /// failure detector is wrong, each part may have its own leader, even under the same epoch.
    BestEffort,
}

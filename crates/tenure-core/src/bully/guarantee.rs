//! The guarantee of an election among peers.

use core::fmt;

/// The guarantee of an election among peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupGuarantee {
    /// A majority of the members agrees on the leader and on the number of its term, whatever the
    /// failure detector says. Two leaders at a time need clocks that differ in rate by more than
    /// the margin of the timings. A minority that is cut off has no leader.
    Quorum,
    /// The members that reach each other have one leader. When the network is partitioned, or a
    /// failure detector is wrong, there may be several at a time; they merge when they meet.
    BestEffort,
}

impl fmt::Display for GroupGuarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quorum => "quorum",
            Self::BestEffort => "best effort",
        })
    }
}

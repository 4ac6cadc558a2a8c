//! The guarantee of an election among peers.

use core::fmt;

/// The guarantee of an election among peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupGuarantee {
    /// A majority of the members agrees on the leader and on the epoch of its term, also if the
    /// failure detector is wrong. Two leaders at a time are possible only if the rates of their
    /// clocks differ by more than the margin of the timings. A minority that is cut off has no
    /// leader.
    Quorum,
    /// The members that reach each other have one leader. When the network is partitioned, or a
    /// failure detector is wrong, there may be several leaders at a time. When leaders can reach
    /// each other again, the worse ones follow the best one.
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

//! The labels of fragments.

use std::fmt;

/// The identifier of a process, or in a network without identifiers a random number.
///
/// Two processes with the same number can keep the election from ending. They never cause two
/// leaders, because counts pass along the edges of one tree only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(pub u128);

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The label of a fragment: its level first, then the identifier of its core.
///
/// A fragment of level k has at least 2^k nodes, so a node has at most log2 n labels after its
/// first one. The labels of a node only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FragmentLabel {
    /// The level; -1 for a process that was woken and is no initiator.
    pub level: i8,
    /// The identifier of the core.
    pub core: CoreId,
}

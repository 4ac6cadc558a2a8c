//! The nodes of a group, and their incarnations.

use core::fmt;

use serde::{Deserialize, Serialize};

/// The id of a node in a group with configured members. It stays the same over restarts.
///
/// It only identifies the node. In particular, it is not the node's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a node's start. It increases with every start, and is on disk before the node
/// sends its first message.
///
/// It distinguishes the node's current messages from delayed messages of an earlier start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

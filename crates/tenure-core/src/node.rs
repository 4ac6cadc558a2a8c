//! The nodes of a group, and their starts.

use core::fmt;

use serde::{Deserialize, Serialize};

/// A node of a group whose members are configured; the same before and after a restart.
///
/// The number names the node and says nothing else about it, least of all its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which start of a node this is: it grows with every start, and is on disk before the first message
/// of that start leaves.
///
/// It tells what a node says now from what the network still carries of its life before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

//! Messages and outputs.

use super::{CoreId, FragmentLabel};

/// One end of a link at its process. Ports are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

/// A message over one link. Each has O(log n) bits.
///
/// A label says under which label the sender sent the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForestMessage {
    /// The sender is awake.
    Hello,
    /// The answer to `Hello`. It shows that the link works in both directions.
    HelloAck,
    /// Does this link lead to another fragment?
    Test(FragmentLabel),
    /// The answer to a `Test` of a smaller label: it does.
    Accept(FragmentLabel),
    /// The answer to a `Test` of the same label: it does not.
    Reject,
    /// To the core: a node below has found a fragment with a greater label.
    Found(FragmentLabel),
    /// From the core to the node that has found it: join.
    ChangeRoot(FragmentLabel),
    /// The fragment of the sender joins that of the receiver.
    Connect(FragmentLabel),
    /// To the core: a fragment of the same level wants to join.
    RaiseRequest(FragmentLabel),
    /// The new label of the receiver.
    Initiate {
        /// The label.
        label: FragmentLabel,
        /// Whether the receiver is the root of a region that counts by itself.
        is_edge: bool,
        /// The number of nodes from which that region reports, if it is known.
        goal: Option<u32>,
    },
    /// To the parent: the counts of the subtree of the sender have changed.
    Up {
        /// The label.
        label: FragmentLabel,
        /// The open places of the subtree, at most 2f + 1.
        open: u32,
        /// The nodes of the subtree that are counted.
        counted: u32,
    },
    /// To the parent: the region of the sender has reached its goal, or is complete.
    Grow {
        /// The label.
        label: FragmentLabel,
        /// The open places of the region, at most 2f + 1.
        open: u32,
        /// The nodes of the region that are counted.
        counted: u32,
    },
    /// From the root of a region: regions below report from this number of nodes.
    Quota {
        /// The label.
        label: FragmentLabel,
        /// The number of nodes.
        quota: u32,
    },
    /// This process is the leader.
    Elected(CoreId),
}

impl ForestMessage {
    /// Returns the label without which the message is old for its receiver. Messages between
    /// fragments have none: their handlers compare the labels.
    pub(super) const fn own_label(&self) -> Option<FragmentLabel> {
        match *self {
            Self::Found(label)
            | Self::ChangeRoot(label)
            | Self::RaiseRequest(label)
            | Self::Up { label, .. }
            | Self::Grow { label, .. }
            | Self::Quota { label, .. } => Some(label),
            Self::Hello
            | Self::HelloAck
            | Self::Test(_)
            | Self::Accept(_)
            | Self::Reject
            | Self::Connect(_)
            | Self::Initiate { .. }
            | Self::Elected(_) => None,
        }
    }

    /// Returns whether the message belongs to counting, and not to growing or the announcement.
    #[must_use]
    pub const fn counts(&self) -> bool {
        matches!(
            self,
            Self::Up { .. } | Self::Grow { .. } | Self::Quota { .. }
        )
    }
}

/// A message that a process sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForestOutput {
    /// The port.
    pub port: Port,
    /// The message.
    pub message: ForestMessage,
}

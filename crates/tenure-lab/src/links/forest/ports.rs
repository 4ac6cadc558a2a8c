//! The ports of a process, with their part in the tree and in the count.

use super::{FragmentLabel, Port};

/// The part of a link in the forest, as the process at one end knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortState {
    /// Nothing has arrived. The link is dead or slow.
    Quiet,
    /// The link works and waits for its test.
    Queued,
    /// A `Test` is on its way.
    Testing,
    /// The link leads to a fragment with a greater label.
    Outgoing,
    /// The link belongs to the tree.
    Branch,
    /// Both ends belong to the same fragment, which never parts.
    Rejected,
}

impl PortState {
    const fn is_open(self) -> bool {
        matches!(
            self,
            Self::Quiet | Self::Queued | Self::Testing | Self::Outgoing
        )
    }
}

/// A child in the tree, as it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Child {
    /// A region that counts by itself and has not reported.
    Edge,
    /// A subtree with its open places, which are unknown before its first report and if there are
    /// too many of them, and the number of its nodes that are counted.
    Inside { open: Option<u32>, counted: u32 },
}

impl Child {
    pub(super) const UNKNOWN: Self = Self::Inside {
        open: None,
        counted: 0,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Record {
    state: PortState,
    /// The greatest label of a `Test` that has not been answered.
    deferred: Option<FragmentLabel>,
    child: Option<Child>,
}

/// All ports, and sums over them, so that a count does not depend on the degree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ports {
    records: Vec<Record>,
    open: u64,
    edges: u64,
    unknown: u64,
    open_below: u64,
    counted_below: u64,
}

impl Ports {
    pub(super) fn new(count: u16) -> Self {
        let record = Record {
            state: PortState::Quiet,
            deferred: None,
            child: None,
        };
        Self {
            records: vec![record; usize::from(count)],
            open: u64::from(count),
            edges: 0,
            unknown: 0,
            open_below: 0,
            counted_below: 0,
        }
    }

    pub(super) fn has(&self, port: Port) -> bool {
        usize::from(port.0) < self.records.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Port> + use<> {
        // There are at most 65,535 ports.
        (0..self.records.len() as u16).map(Port)
    }

    pub(super) fn state(&self, port: Port) -> PortState {
        self.records[usize::from(port.0)].state
    }

    pub(super) fn set_state(&mut self, port: Port, state: PortState) {
        let record = &mut self.records[usize::from(port.0)];
        self.open -= u64::from(record.state.is_open());
        self.open += u64::from(state.is_open());
        record.state = state;
    }

    pub(super) fn deferred(&self, port: Port) -> Option<FragmentLabel> {
        self.records[usize::from(port.0)].deferred
    }

    pub(super) fn set_deferred(&mut self, port: Port, label: Option<FragmentLabel>) {
        self.records[usize::from(port.0)].deferred = label;
    }

    pub(super) fn child(&self, port: Port) -> Option<Child> {
        self.records[usize::from(port.0)].child
    }

    pub(super) fn set_child(&mut self, port: Port, child: Option<Child>) {
        let before = self.records[usize::from(port.0)].child;
        self.records[usize::from(port.0)].child = child;
        if let Some(sum) = self.sum_of(before) {
            *sum.0 -= sum.1;
        }
        if let Some(sum) = self.sum_of(child) {
            *sum.0 += sum.1;
        }
        let counted = |child| match child {
            Some(Child::Inside { counted, .. }) => u64::from(counted),
            _ => 0,
        };
        self.counted_below += counted(child);
        self.counted_below -= counted(before);
    }

    /// Returns the sum to which this child contributes open places, with its contribution.
    fn sum_of(&mut self, child: Option<Child>) -> Option<(&mut u64, u64)> {
        match child? {
            Child::Edge => Some((&mut self.edges, 1)),
            Child::Inside { open: None, .. } => Some((&mut self.unknown, 1)),
            Child::Inside { open, .. } => open.map(|it| (&mut self.open_below, u64::from(it))),
        }
    }

    /// Returns the open places of the subtree, at most `cap`.
    pub(super) fn open_places(&self, cap: u32) -> u32 {
        let unknown = self.unknown.saturating_mul(u64::from(cap));
        let open = unknown.saturating_add(self.open + self.edges + self.open_below);
        u32::try_from(open).unwrap_or(u32::MAX).min(cap)
    }

    /// Returns the nodes of the subtree that are counted, with this one.
    pub(super) fn counted(&self) -> u32 {
        u32::try_from(self.counted_below + 1).unwrap_or(u32::MAX)
    }
}

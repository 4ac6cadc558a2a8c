//! A machine: its clocks, its disk, its process and that process's task.

use std::collections::VecDeque;
use std::time::Duration;

use tenure_core::{Epoch, NodeId};

use super::line::Line;
use super::world::Happening;
use super::{Clock, Dice, Process, Stable, Time};

#[derive(Debug)]
pub(super) struct Place {
    pub(super) node: NodeId,
    pub(super) clock: Clock,
    pub(super) dice: Dice,
    pub(super) process: Option<Box<dyn Process>>,
    /// Which start of it: what is for an earlier one does not happen.
    pub(super) life: u64,
    /// Whether its machine runs, and refuses connections when the process does not.
    pub(super) machine_up: bool,
    /// Whether it was taken away for good.
    pub(super) gone: bool,
    pub(super) still: Option<Still>,
    /// What has come while it stood still.
    pub(super) backlog: Vec<Happening>,
    pub(super) disk: Disk,
    pub(super) line: Line,
    pub(super) task: Option<Going>,
    pub(super) tasks: u64,
    /// When it is woken next.
    pub(super) armed: Option<Time>,
    /// What it last held to be so.
    pub(super) claim: Option<(Option<Epoch>, Time)>,
    pub(super) sees: Option<NodeId>,
}

/// A process that stands still.
#[derive(Clone, Copy, Debug)]
pub(super) struct Still {
    pub(super) until: Time,
    /// Whether its task goes on: then it is only its runtime that is kept busy.
    pub(super) task_goes_on: bool,
}

/// A task that is going.
#[derive(Clone, Copy, Debug)]
pub(super) struct Going {
    pub(super) number: u64,
    pub(super) epoch: Option<Epoch>,
}

/// What a machine keeps, and what is on its way there.
#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) durable: Option<Stable>,
    pub(super) under_way: VecDeque<Stable>,
    /// When the last of those is there. One disk writes one thing after the other.
    pub(super) busy_until: Time,
    /// How long a write takes, where that was set.
    pub(super) takes: Option<Duration>,
}

/// All machines, in the order of their numbers, which follow each other.
#[derive(Debug)]
pub(super) struct Places(Vec<Place>);

impl Places {
    pub(super) fn new(places: Vec<Place>) -> Self {
        debug_assert!(
            places
                .windows(2)
                .all(|pair| pair[0].node.0 + 1 == pair[1].node.0)
        );
        Self(places)
    }

    fn index(&self, node: NodeId) -> Option<usize> {
        let first = self.0.first()?.node.0;
        node.0.checked_sub(first).map(|index| index as usize)
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Place> {
        self.0.get(self.index(node)?)
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut Place> {
        let index = self.index(node)?;
        self.0.get_mut(index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.0.iter()
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.iter().map(|place| place.node)
    }
}

impl Place {
    pub(super) fn new(node: NodeId, clock: Clock, dice: Dice) -> Self {
        Self {
            node,
            clock,
            dice,
            process: None,
            life: 0,
            machine_up: true,
            gone: false,
            still: None,
            backlog: Vec::new(),
            disk: Disk::default(),
            line: Line::default(),
            task: None,
            tasks: 0,
            armed: None,
            claim: None,
            sees: None,
        }
    }

    /// Whether its process takes part in anything now.
    pub(super) fn is_awake(&self) -> bool {
        self.process.is_some() && self.still.is_none()
    }
}

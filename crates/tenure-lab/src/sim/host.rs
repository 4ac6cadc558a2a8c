//! A machine: its clocks, its disk, its process and that process's task.

use std::collections::VecDeque;
use std::time::Duration;

use tenure_core::{Epoch, NodeId};

use super::uplink::Uplink;
use super::world::Scheduled;
use super::{Clock, DurableState, Process, Rng, Time};

#[derive(Debug)]
pub(super) struct Host {
    pub(super) node: NodeId,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    pub(super) process: Option<Box<dyn Process>>,
    /// Which start of it: what is for an earlier one does not happen.
    pub(super) incarnation: u64,
    /// Whether its machine runs, and refuses connections when the process does not.
    pub(super) machine_up: bool,
    /// Whether it was taken away for good.
    pub(super) gone: bool,
    pub(super) pause: Option<Pause>,
    /// What has come while it stood still.
    pub(super) backlog: Vec<Scheduled>,
    pub(super) disk: Disk,
    pub(super) uplink: Uplink,
    pub(super) task: Option<RunningTask>,
    pub(super) tasks: u64,
    /// When it is woken next.
    pub(super) wake_at: Option<Time>,
    /// What it last held to be so.
    pub(super) claim: Option<(Option<Epoch>, Time)>,
    pub(super) seen_leader: Option<NodeId>,
}

/// A process that stands still.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) until: Time,
    /// Whether its task goes on: then it is only its runtime that is kept busy.
    pub(super) task_goes_on: bool,
}

/// A task that is going.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunningTask {
    pub(super) number: u64,
    pub(super) epoch: Option<Epoch>,
}

/// What a machine keeps, and what is on its way there.
#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) durable: Option<DurableState>,
    pub(super) pending: VecDeque<DurableState>,
    /// When the last of those is there. One disk writes one thing after the other.
    pub(super) busy_until: Time,
    /// How long a write takes, where that was set.
    pub(super) takes: Option<Duration>,
}

/// All machines, in the order of their numbers, which follow each other.
#[derive(Debug)]
pub(super) struct Hosts(Vec<Host>);

impl Hosts {
    pub(super) fn new(hosts: Vec<Host>) -> Self {
        debug_assert!(
            hosts
                .windows(2)
                .all(|pair| pair[0].node.0 + 1 == pair[1].node.0)
        );
        Self(hosts)
    }

    fn index(&self, node: NodeId) -> Option<usize> {
        let first = self.0.first()?.node.0;
        node.0.checked_sub(first).map(|index| index as usize)
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Host> {
        self.0.get(self.index(node)?)
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut Host> {
        let index = self.index(node)?;
        self.0.get_mut(index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Host> {
        self.0.iter()
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.iter().map(|host| host.node)
    }
}

impl Host {
    pub(super) fn new(node: NodeId, clock: Clock, rng: Rng) -> Self {
        Self {
            node,
            clock,
            rng: rng,
            process: None,
            incarnation: 0,
            machine_up: true,
            gone: false,
            pause: None,
            backlog: Vec::new(),
            disk: Disk::default(),
            uplink: Uplink::default(),
            task: None,
            tasks: 0,
            wake_at: None,
            claim: None,
            seen_leader: None,
        }
    }

    /// Whether its process takes part in anything now.
    pub(super) fn is_awake(&self) -> bool {
        self.process.is_some() && self.pause.is_none()
    }
}

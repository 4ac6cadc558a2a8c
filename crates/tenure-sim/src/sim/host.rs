//! A host: its clocks, its disk, its process and the task of the process.

use std::collections::{BTreeMap, VecDeque};
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
    /// The number of starts. Inputs for an earlier start are dropped.
    pub(super) incarnation: u64,
    /// Whether the machine runs. It refuses connections while its process does not run.
    pub(super) machine_up: bool,
    /// Whether the process never starts again.
    pub(super) gone: bool,
    pub(super) paused_until: Option<Time>,
    /// The inputs that arrived while the process was frozen.
    pub(super) backlog: Vec<Scheduled>,
    pub(super) disk: Disk,
    pub(super) uplink: Uplink,
    pub(super) task: Option<RunningTask>,
    pub(super) tasks: u64,
    /// The time at which the process wakes next.
    pub(super) wake_at: Option<Time>,
    /// The last claim of the process to lead, and its end.
    pub(super) claim: Option<(Option<Epoch>, Time)>,
    pub(super) seen_leader: Option<NodeId>,
}

/// A running task.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunningTask {
    pub(super) number: u64,
    pub(super) epoch: Option<Epoch>,
}

/// The state on disk, and the writes that are pending.
#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) durable: Option<DurableState>,
    pub(super) pending: VecDeque<DurableState>,
    /// The time at which the last pending write ends. A disk executes one write after the other.
    pub(super) busy_until: Time,
    /// The duration of a write, if a fault has set it.
    pub(super) takes: Option<Duration>,
}

/// Returns the host with this number, which must be in the world.
pub(super) fn host_of(hosts: &mut BTreeMap<NodeId, Host>, node: NodeId) -> &mut Host {
    hosts.get_mut(&node).expect("a host of the world")
}

impl Host {
    pub(super) fn new(node: NodeId, clock: Clock, rng: Rng) -> Self {
        Self {
            node,
            clock,
            rng,
            process: None,
            incarnation: 0,
            machine_up: true,
            gone: false,
            paused_until: None,
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

    /// Returns whether the process runs and is not frozen.
    pub(super) fn is_awake(&self) -> bool {
        self.process.is_some() && self.paused_until.is_none()
    }
}

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
    /// Counts its starts: inputs for an earlier one are dropped.
    pub(super) incarnation: u64,
    /// Whether the machine runs. It refuses connections while the process does not run.
    pub(super) machine_up: bool,
    /// Whether the process never starts again.
    pub(super) gone: bool,
    pub(super) pause: Option<Pause>,
    /// Inputs that came while the process was frozen.
    pub(super) backlog: Vec<Scheduled>,
    pub(super) disk: Disk,
    pub(super) uplink: Uplink,
    pub(super) task: Option<RunningTask>,
    pub(super) tasks: u64,
    /// When the process wakes next.
    pub(super) wake_at: Option<Time>,
    /// The last claim of the process to lead, and its end.
    pub(super) claim: Option<(Option<Epoch>, Time)>,
    pub(super) seen_leader: Option<NodeId>,
}

/// A process that is frozen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) until: Time,
    /// Whether its task goes on, because only its runtime is kept busy.
    pub(super) task_goes_on: bool,
}

/// A task that runs.
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
    /// When the last pending write is done. A disk executes one write after the other.
    pub(super) busy_until: Time,
    /// How long a write takes, if a fault has set it.
    pub(super) takes: Option<Duration>,
}

/// The host of this number, which must be one of the world's.
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

    /// Whether its process runs and is not frozen.
    pub(super) fn is_awake(&self) -> bool {
        self.process.is_some() && self.pause.is_none()
    }
}

//! The world: hosts, the network between them, and the queue of events.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use tenure_core::fence::Gate;
use tenure_core::lease::candidate::TaskEnd;
use tenure_core::{Epoch, NodeId};

use super::execute::WRITE;
use super::host::Host;
use super::queue::Queue;
use super::{
    Clock, Fault, HistoryEvent, HistoryEventKind, Network, ProcessEffect, ProcessFactory, Rng,
    SimMessage, Target, Time, Traffic, TrafficLog, WorldConfig,
};

/// The random streams of a run. The streams of the hosts follow.
const NETWORK: u64 = 1;
const WORLD: u64 = 2;
const MACHINES: u64 = 1_000;

/// An event that is due at a certain time.
#[derive(Clone, Debug)]
pub(super) enum Scheduled {
    Wake(NodeId),
    Arrival {
        from: NodeId,
        to: NodeId,
        sent: Time,
        payload: Rc<dyn SimMessage>,
    },
    Refused {
        of: NodeId,
        to: NodeId,
        incarnation: u64,
    },
    Written(NodeId, u64),
    TaskEnd(NodeId, u64, TaskEnd),
    TaskWrite(NodeId, u64),
    WriteArrival(NodeId, Option<Epoch>),
    Fault(usize),
    Start(NodeId),
    Resume(NodeId, u64, Option<Time>),
    EndFaults,
}

/// Hosts with their processes, and the network between them.
#[derive(Debug)]
pub struct World {
    pub(super) factory: Box<dyn ProcessFactory>,
    /// True time.
    pub now: Time,
    /// The network.
    pub network: Network,
    pub(super) hosts: BTreeMap<NodeId, Host>,
    pub(super) config: WorldConfig,
    pub(super) faults: Vec<Fault>,
    /// Whether the faults are over. Later faults have no effect.
    pub(super) is_calm: bool,
    pub(super) rng: Rng,
    pub(super) network_rng: Rng,
    pub(super) queue: Queue<Scheduled>,
    pub(super) receiver: Gate,
    /// The events so far, in order.
    pub history: Vec<HistoryEvent>,
    /// The messages so far.
    pub traffic: Traffic,
    /// The messages over time, if bytes are counted.
    pub traffic_log: TrafficLog,
    pub(super) trace: Option<Vec<String>>,
    /// A buffer that the steps share.
    pub(super) effects: Vec<ProcessEffect>,
}

impl World {
    /// Creates a world with these hosts, on which nothing runs yet.
    #[must_use]
    pub fn new(factory: Box<dyn ProcessFactory>, config: WorldConfig, seed: u64) -> Self {
        let mut rng = Rng::new(seed, WORLD);
        let mut host = |node: NodeId| {
            let origin = rng.between(Duration::ZERO, Duration::from_secs(100_000));
            let ppm = rng.below(2 * config.drift + 1).cast_signed() - config.drift.cast_signed();
            let own = Rng::new(seed, MACHINES + u64::from(node.0));
            (node, Host::new(node, Clock::new(origin, ppm), own))
        };
        let hosts = factory.machines().into_iter().map(&mut host).collect();
        Self {
            factory,
            now: Time::default(),
            network: Network::default(),
            hosts,
            config,
            faults: Vec::new(),
            is_calm: false,
            rng,
            network_rng: Rng::new(seed, NETWORK),
            queue: Queue::default(),
            receiver: Gate::new(),
            history: Vec::new(),
            traffic: Traffic::default(),
            traffic_log: TrafficLog::default(),
            trace: None,
            effects: Vec::new(),
        }
    }

    /// Records a line for each event.
    #[must_use]
    pub fn with_trace(mut self) -> Self {
        self.trace = Some(Vec::new());
        self
    }

    /// Returns all hosts.
    #[must_use]
    pub fn machines(&self) -> Vec<NodeId> {
        self.hosts.keys().copied().collect()
    }

    /// Returns the recorded lines, if [`with_trace`](Self::with_trace) was called.
    #[must_use]
    pub fn trace(&self) -> &[String] {
        self.trace.as_deref().unwrap_or_default()
    }

    /// Returns the hosts whose processes lead in their own opinion.
    #[must_use]
    pub fn leaders(&self) -> Vec<NodeId> {
        let claims = self.hosts.values().filter(|host| {
            let valid = host.claim.is_some_and(|(_, until)| self.now < until);
            valid && host.process.is_some()
        });
        claims.map(|host| host.node).collect()
    }

    /// Returns the leader that each running process sees, without the store.
    #[must_use]
    pub fn seen_leaders(&self) -> Vec<(NodeId, Option<NodeId>)> {
        let hosts = self.hosts.values();
        let runs = hosts.filter(|host| host.process.is_some() && !self.factory.is_store(host.node));
        runs.map(|host| (host.node, host.seen_leader)).collect()
    }

    /// Starts the process of this host after `pause`.
    pub fn start_after(&mut self, node: NodeId, pause: Duration) {
        self.after(pause, Scheduled::Start(node));
    }

    /// Injects this fault after `pause`.
    pub fn inject_after(&mut self, pause: Duration, fault: Fault) {
        self.faults.push(fault);
        self.after(pause, Scheduled::Fault(self.faults.len() - 1));
    }

    /// Ends all faults after `pause`. Hosts start again unless they are gone permanently.
    pub fn end_faults_after(&mut self, pause: Duration) {
        self.after(pause, Scheduled::EndFaults);
    }

    /// Runs until `end` after the beginning, or until there are too many messages.
    pub fn run_until(&mut self, end: Duration) {
        let end = Time::after(end);
        while self.traffic.messages < self.config.most_messages
            && let Some((at, scheduled)) = self.queue.pop_until(end)
        {
            self.now = at;
            self.dispatch(scheduled);
        }
        if self.traffic.messages < self.config.most_messages {
            self.now = end;
        }
    }

    /// Ends the run.
    pub fn finish(&mut self) {
        if self.traffic.messages >= self.config.most_messages {
            self.record(NodeId(0), HistoryEventKind::MessageFlood);
        }
        self.record(NodeId(0), HistoryEventKind::RunEnded);
    }

    pub(super) fn after(&mut self, pause: Duration, scheduled: Scheduled) {
        self.at(self.now + pause, scheduled);
    }

    pub(super) fn at(&mut self, at: Time, scheduled: Scheduled) {
        self.queue.push(at, scheduled);
    }

    pub(super) fn record(&mut self, node: NodeId, what: HistoryEventKind) {
        let event = HistoryEvent {
            at: self.now,
            node,
            kind: what,
        };
        if let Some(trace) = &mut self.trace {
            trace.push(event.to_string());
        }
        self.history.push(event);
    }

    pub(super) fn log(&mut self, line: impl FnOnce(Time) -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line(self.now));
        }
    }

    /// Records whether a quorum is connected, after a change of the hosts or links.
    pub(super) fn record_quorum(&mut self) {
        if self.config.watches_quorums {
            let is_connected = self.is_quorum_connected();
            self.record(NodeId(0), HistoryEventKind::Connected(is_connected));
        }
    }

    /// Returns whether some hosts without a fault can elect a leader: every message among them
    /// arrives in time, and each of them either exchanges messages with another host in both
    /// directions, or not at all.
    fn is_quorum_connected(&self) -> bool {
        // After a disk was slow, the writes that wait for it still take their time.
        let is_well = |host: &&Host| {
            let is_quick = host.disk.takes.is_none() && host.disk.busy_until <= self.now + WRITE;
            host.is_awake() && is_quick
        };
        let well: Vec<NodeId> = self
            .hosts
            .values()
            .filter(is_well)
            .map(|it| it.node)
            .collect();
        let runs = self.hosts.values().filter(|it| it.process.is_some());
        let runs: Vec<NodeId> = runs.map(|it| it.node).collect();
        let both =
            |of: &dyn Fn(NodeId, NodeId) -> bool, one, other| of(one, other) && of(other, one);
        let is_clean = |from, to| self.network.is_clean(from, to);
        let is_cut = |from, to| !self.network.is_open(from, to);
        (1_u32..1 << well.len()).any(|mask| {
            let set = well.iter().enumerate();
            let set = set.filter(|(place, _)| mask & 1 << place != 0);
            let set: BTreeSet<NodeId> = set.map(|(_, &node)| node).collect();
            let connected = set.iter().all(|&one| {
                let inside = set.iter().filter(|&&other| other != one);
                let mut outside = runs.iter().filter(|it| !set.contains(it));
                inside.copied().all(|other| both(&is_clean, one, other))
                    && outside
                        .all(|&other| both(&is_clean, one, other) || both(&is_cut, one, other))
            });
            connected && self.factory.can_elect(&set)
        })
    }

    /// Returns the hosts that match a target now.
    pub(super) fn resolve(&self, who: Target) -> Vec<NodeId> {
        let leaders = self.leaders();
        let others = || self.hosts.values().filter(|it| !leaders.contains(&it.node));
        match who {
            Target::Node(node) => {
                let host = self.hosts.get(&node).map(|host| host.node);
                host.into_iter().collect()
            }
            Target::Leader => leaders,
            Target::BestOther => {
                let runs = others().filter(|it| it.process.is_some());
                let best = runs
                    .map(|it| it.node)
                    .find(|&it| !self.factory.is_store(it));
                best.into_iter().collect()
            }
            Target::Store => {
                let stores = self.hosts.keys().copied();
                stores.filter(|&it| self.factory.is_store(it)).collect()
            }
        }
    }
}

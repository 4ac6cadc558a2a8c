//! The world: what is due next, and what comes of it.

use std::time::Duration;

use tenure_core::fence::Gate;
use tenure_core::lease::candidate::TaskEnd;
use tenure_core::{Epoch, Instant, NodeId};

use super::host::{Host, Hosts, RunningTask};
use super::queue::Queue;
use super::{
    Clock, Context, DurableState, EventKind, HistoryEvent, Network, Payload, ProcessEffect,
    ProcessFactory, ProcessInput, Rng, Time, Traffic, TrafficLog,
};
use crate::fault::{Fault, Target};

/// How long a write to a disk takes at most, where nothing else is set.
const WRITE: Duration = Duration::from_millis(4);

/// The streams of random numbers of a run. Those of the machines come after.
const NETWORK: u64 = 1;
const WORLD: u64 = 2;
const MACHINES: u64 = 1_000;

/// How leaders' tasks and the machines behave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorldConfig {
    /// How long a task takes that was told to stop.
    pub task: TaskStop,
    /// How often a task writes to the receiver, on average; `None`: never.
    pub writes_every: Option<Duration>,
    /// By how many millionths clocks differ from true time at most.
    pub drift: u64,
    /// How much later than it is to a driver wakes at most: threads are never quite punctual.
    pub late: Duration,
    /// Whether the bytes of messages are counted, and what is sent when. It takes time.
    pub count_bytes: bool,
    /// After how many messages a run ends, because they do nothing but make more of them.
    pub most_messages: u64,
}

/// How long a task takes that was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStop {
    /// As chance will have it, and sometimes so long that it is aborted.
    Any,
    /// As long as it may: it is aborted each time, and uses up what time it has then.
    Slowest,
    /// So long.
    Takes(Duration),
}

impl Default for WorldConfig {
    /// Tasks that stop after a tenth of a second, clocks that are right.
    fn default() -> Self {
        Self {
            task: TaskStop::Takes(Duration::from_millis(100)),
            writes_every: Some(Duration::from_millis(500)),
            drift: 0,
            late: Duration::from_millis(1),
            count_bytes: false,
            most_messages: u64::MAX,
        }
    }
}

/// What is due.
#[derive(Clone, Debug)]
pub(super) enum Scheduled {
    Wake(NodeId),
    Arrival {
        from: NodeId,
        to: NodeId,
        sent: Time,
        payload: Payload,
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

/// Machines, what runs on them, and what lies between.
pub struct World {
    pub(super) factory: Box<dyn ProcessFactory>,
    pub(super) now: Time,
    pub(super) network: Network,
    pub(super) hosts: Hosts,
    pub(super) config: WorldConfig,
    faults: Vec<Fault>,
    /// No fault happens any more.
    pub(super) is_calm: bool,
    pub(super) rng: Rng,
    network_rng: Rng,
    queue: Queue<Scheduled>,
    receiver: Gate,
    history: Vec<HistoryEvent>,
    traffic: Traffic,
    traffic_log: TrafficLog,
    trace: Option<Vec<String>>,
    /// Reused between the steps.
    effects: Vec<ProcessEffect>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now)
            .field("places", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl World {
    /// A world with this cast, in which nothing runs yet.
    #[must_use]
    pub fn new(cast: Box<dyn ProcessFactory>, config: WorldConfig, seed: u64) -> Self {
        let mut rng = Rng::new(seed, WORLD);
        let mut host = |node: NodeId| {
            let origin = rng.between(Duration::ZERO, Duration::from_secs(100_000));
            let ppm = rng.below(2 * config.drift + 1).cast_signed() - config.drift.cast_signed();
            let own = Rng::new(seed, MACHINES + u64::from(node.0));
            Host::new(node, Clock::new(origin, ppm), own)
        };
        let hosts = cast.machines().into_iter();
        let hosts = Hosts::new(hosts.map(&mut host).collect());
        Self {
            factory: cast,
            now: Time::default(),
            network: Network::default(),
            hosts: hosts,
            config: config,
            faults: Vec::new(),
            is_calm: false,
            rng: rng,
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

    /// Keeps a line for everything that happens.
    #[must_use]
    pub fn with_trace(mut self) -> Self {
        self.trace = Some(Vec::new());
        self
    }

    /// What lies between the machines.
    pub const fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// True time.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// All machines.
    #[must_use]
    pub fn machines(&self) -> Vec<NodeId> {
        self.hosts.nodes().collect()
    }

    /// What has happened, in order.
    #[must_use]
    pub fn history(&self) -> &[HistoryEvent] {
        &self.history
    }

    /// How much was sent.
    #[must_use]
    pub const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// What was sent when, where bytes are counted.
    #[must_use]
    pub const fn traffic_log(&self) -> &TrafficLog {
        &self.traffic_log
    }

    /// A line for everything that happened, if it was asked for.
    #[must_use]
    pub fn trace(&self) -> &[String] {
        self.trace.as_deref().unwrap_or_default()
    }

    /// Who holds itself to lead.
    #[must_use]
    pub fn leaders(&self) -> Vec<NodeId> {
        let claims = self.hosts.iter().filter(|host| {
            let valid = host.claim.is_some_and(|(_, until)| self.now < until);
            valid && host.process.is_some()
        });
        claims.map(|host| host.node).collect()
    }

    /// Whom each machine whose process runs sees to lead; the store not.
    #[must_use]
    pub fn seen_leaders(&self) -> Vec<(NodeId, Option<NodeId>)> {
        let hosts = self.hosts.iter();
        let runs = hosts.filter(|host| host.process.is_some() && !self.factory.is_store(host.node));
        runs.map(|host| (host.node, host.seen_leader)).collect()
    }

    /// Starts this machine's process after so long.
    pub fn start_after(&mut self, node: NodeId, pause: Duration) {
        self.after(pause, Scheduled::Start(node));
    }

    /// Lets this happen after so long.
    pub fn inject_after(&mut self, pause: Duration, fault: Fault) {
        self.faults.push(fault);
        self.after(pause, Scheduled::Fault(self.faults.len() - 1));
    }

    /// After so long everything is well, and stays so, but for who is gone for good.
    pub fn end_faults_after(&mut self, pause: Duration) {
        self.after(pause, Scheduled::EndFaults);
    }

    /// Goes on until so long after the beginning, or until more messages were sent than anybody can
    /// mean.
    pub fn run_until(&mut self, end: Duration) {
        let end = Time::after(end);
        while self.traffic.messages() < self.config.most_messages
            && let Some((at, scheduled)) = self.queue.pop_until(end)
        {
            self.now = at;
            self.dispatch(scheduled);
        }
        if self.traffic.messages() < self.config.most_messages {
            self.now = end;
        }
    }

    /// The run is over.
    pub fn finish(&mut self) {
        if self.traffic.messages() >= self.config.most_messages {
            self.record(NodeId(0), EventKind::MessageFlood);
        }
        self.record(NodeId(0), EventKind::RunEnded);
    }

    pub(super) fn after(&mut self, pause: Duration, scheduled: Scheduled) {
        self.at(self.now + pause, scheduled);
    }

    pub(super) fn at(&mut self, at: Time, scheduled: Scheduled) {
        self.queue.push(at, scheduled);
    }

    pub(super) fn record(&mut self, node: NodeId, what: EventKind) {
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

    fn log(&mut self, line: impl FnOnce(Time) -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line(self.now));
        }
    }

    pub(super) fn host(&mut self, node: NodeId) -> Option<&mut Host> {
        self.hosts.get_mut(node)
    }

    /// The machines that are meant just now.
    pub(super) fn resolve(&self, who: Target) -> Vec<NodeId> {
        let leaders = self.leaders();
        let others = || self.hosts.iter().filter(|it| !leaders.contains(&it.node));
        match who {
            Target::Node(node) => vec![node],
            Target::Leader => leaders,
            Target::BestOther => {
                let runs = others().filter(|it| it.process.is_some());
                let best = runs
                    .map(|it| it.node)
                    .find(|&it| !self.factory.is_store(it));
                best.into_iter().collect()
            }
            Target::Store => {
                let stores = self.hosts.nodes();
                stores.filter(|&it| self.factory.is_store(it)).collect()
            }
        }
    }

    fn dispatch(&mut self, scheduled: Scheduled) {
        match scheduled {
            Scheduled::Fault(number) => self.inject(&self.faults[number].clone()),
            Scheduled::EndFaults => self.end_faults(),
            Scheduled::Start(node) => self.start(node),
            Scheduled::Resume(node, incarnation, stopped) => {
                self.resume(node, incarnation, stopped)
            }
            Scheduled::WriteArrival(node, epoch) => {
                // Without an epoch there is nothing to check.
                let taken = epoch.is_none_or(|epoch| self.receiver.admit(epoch).is_ok());
                self.record(node, EventKind::Wrote { epoch, taken });
            }
            Scheduled::TaskWrite(node, number) => self.task_write(node, number),
            scheduled => self.deliver(scheduled),
        }
    }

    /// What goes to one process, which may stand still.
    pub(super) fn deliver(&mut self, scheduled: Scheduled) {
        let node = match &scheduled {
            Scheduled::Wake(node)
            | Scheduled::Written(node, _)
            | Scheduled::TaskEnd(node, ..)
            | Scheduled::Arrival { to: node, .. }
            | Scheduled::Refused { to: node, .. } => *node,
            _ => return,
        };
        let now = self.now;
        let Some(host) = self.host(node) else {
            return;
        };
        if host.pause.is_some() {
            if matches!(scheduled, Scheduled::Wake(_)) {
                host.wake_at = None;
            } else {
                host.backlog.push(scheduled);
            }
            return;
        }
        let input = match scheduled {
            Scheduled::Wake(_) => {
                if host.wake_at != Some(now) {
                    return;
                }
                host.wake_at = None;
                ProcessInput::Wake
            }
            Scheduled::Written(_, incarnation) => {
                if host.incarnation != incarnation {
                    return;
                }
                let Some(stable) = host.disk.pending.pop_front() else {
                    return;
                };
                host.disk.durable = Some(stable);
                ProcessInput::Written
            }
            Scheduled::TaskEnd(_, number, end) => {
                if host.task.is_none_or(|task| task.number != number) {
                    return;
                }
                let epoch = host.task.take().and_then(|task| task.epoch);
                self.record(node, EventKind::TaskEnded(epoch));
                ProcessInput::TaskEnded(end)
            }
            Scheduled::Refused {
                of, incarnation, ..
            } => {
                if host.incarnation != incarnation {
                    return;
                }
                ProcessInput::Refused(of)
            }
            Scheduled::Arrival {
                from,
                sent,
                payload,
                ..
            } => {
                if host.process.is_none() {
                    if host.machine_up {
                        self.refuse(node, from);
                    }
                    return;
                }
                if !self.network.is_open(from, node) {
                    return;
                }
                self.log(|now| format!("{:>12} {node:>3} <- {from} {payload:?}", now.to_string()));
                ProcessInput::Message {
                    from,
                    payload,
                    age: now.since(sent),
                }
            }
            _ => return,
        };
        self.drive(node, input);
    }

    /// Tells one machine that nobody listens on another one.
    pub(super) fn refuse(&mut self, of: NodeId, to: NodeId) {
        if !self.network.is_open(of, to) {
            return;
        }
        let Some(incarnation) = self.hosts.get(to).map(|host| host.incarnation) else {
            return;
        };
        let way = self
            .network
            .deliveries("refused", (of, to), &mut self.network_rng);
        if let Some(pause) = way.first {
            self.after(
                pause,
                Scheduled::Refused {
                    of,
                    to,
                    incarnation,
                },
            );
        }
    }

    pub(super) fn drive(&mut self, node: NodeId, input: ProcessInput) {
        let now = self.now;
        let mut effects = std::mem::take(&mut self.effects);
        if let Some(host) = self.hosts.get_mut(node)
            && let Some(process) = &mut host.process
        {
            let mut context = Context {
                now: host.clock.read(now),
                wall: host.clock.wall(now),
                rng: &mut host.rng,
                effects: &mut effects,
                uplink: (self.network.sending, now, host.uplink),
            };
            process.handle(&mut context, input);
        }
        self.execute_all(node, &mut effects);
        self.effects = effects;
    }

    pub(super) fn execute_all(&mut self, node: NodeId, effects: &mut Vec<ProcessEffect>) {
        for effect in effects.drain(..) {
            self.execute(node, effect);
        }
        self.update_claim(node);
        self.schedule_wake(node);
    }

    /// What the process now holds to be so.
    fn update_claim(&mut self, node: NodeId) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(node) else {
            return;
        };
        let local = host.clock.read(now);
        let claim = host.process.as_ref().and_then(|it| it.claim(local));
        let claim = claim.map(|claim| {
            let until = claim.until.map_or(Time::NEVER, |it| host.clock.when(it));
            (claim.epoch, until)
        });
        if claim != host.claim {
            let before = std::mem::replace(&mut host.claim, claim);
            match claim {
                Some((epoch, until)) => self.record(node, EventKind::Claims(epoch, until)),
                None if before.is_some_and(|(_, until)| now < until) => {
                    self.record(node, EventKind::Yields);
                }
                None => {}
            }
        }
    }

    pub(super) fn schedule_wake(&mut self, node: NodeId) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(node) else {
            return;
        };
        let Some(due) = host.process.as_ref().and_then(|it| it.poll_timeout()) else {
            return;
        };
        if host.pause.is_some() {
            return;
        }
        let wake = host.clock.when(due).max(now);
        if host.wake_at.is_none_or(|armed| wake < armed) {
            let late = match self.config.late {
                Duration::ZERO => Duration::ZERO,
                late => host.rng.between(Duration::from_micros(1), late),
            };
            let wake = wake + late;
            if host.wake_at.is_none_or(|armed| wake < armed) {
                host.wake_at = Some(wake);
                self.at(wake, Scheduled::Wake(node));
            }
        }
    }

    fn execute(&mut self, node: NodeId, effect: ProcessEffect) {
        match effect {
            ProcessEffect::Send(to, payload) => self.send(node, to, payload),
            ProcessEffect::Write(stable) => self.write(node, stable),
            ProcessEffect::StartTask(epoch) => self.start_task(node, epoch),
            ProcessEffect::CancelTask(reason) => {
                self.log(|now| {
                    format!(
                        "{:>12} {node:>3} task told to stop: {reason}",
                        now.to_string()
                    )
                });
                let (grace, _) = self.factory.stop_allowances();
                let takes = match self.config.task {
                    TaskStop::Takes(takes) => takes,
                    TaskStop::Slowest => return,
                    TaskStop::Any => self.rng.between(Duration::ZERO, grace * 2),
                };
                self.end_task(node, takes, TaskEnd::Returned);
            }
            ProcessEffect::AbortTask => {
                self.log(|now| format!("{:>12} {node:>3} task aborted", now.to_string()));
                let (_, allowance) = self.factory.stop_allowances();
                let takes = match self.config.task {
                    TaskStop::Takes(takes) => takes.min(allowance),
                    TaskStop::Slowest => allowance,
                    TaskStop::Any => self.rng.between(Duration::ZERO, allowance),
                };
                self.end_task(node, takes, TaskEnd::Aborted);
            }
            ProcessEffect::TermEnded(reason) => self.record(node, EventKind::TermEnded(reason)),
            ProcessEffect::Exit => self.exit(node),
            ProcessEffect::SeesLeader(leader) => {
                if let Some(host) = self.host(node)
                    && host.seen_leader != leader
                {
                    host.seen_leader = leader;
                    self.record(node, EventKind::SeesLeader(leader));
                }
            }
            ProcessEffect::Granted { epoch, to, id, at } => {
                let at = self.when(node, at);
                self.record(node, EventKind::Granted { epoch, to, id, at });
            }
            ProcessEffect::LeaseRuns(epoch, from, duration) => {
                let from = self.when(node, from);
                self.record(node, EventKind::LeaseRuns(epoch, from, duration));
            }
            ProcessEffect::LeaseGivenUp(epoch) => self.record(node, EventKind::LeaseGivenUp(epoch)),
            ProcessEffect::Failed(why) => self.record(node, EventKind::Failed(why)),
        }
    }

    fn when(&self, node: NodeId, instant: Instant) -> Time {
        let host = self.hosts.get(node);
        host.map_or(self.now, |host| host.clock.when(instant))
    }

    fn send(&mut self, from: NodeId, to: NodeId, payload: Payload) {
        if !payload.is_message() {
            // It costs nothing worth counting.
        } else if self.config.count_bytes {
            let bytes = payload.bytes();
            self.traffic.count(&payload, bytes);
            self.traffic_log.record(self.now, &payload, bytes);
        } else {
            self.traffic.count(&payload, 0);
        }
        let kind = payload.kind();
        let way = (self.network).deliveries(kind, (from, to), &mut self.network_rng);
        let open = self.network.is_open(from, to);
        let fate = match (open, way.first, way.second) {
            (false, ..) => " (cut off)",
            (_, None, None) => " (lost)",
            (_, None, Some(_)) | (_, Some(_), None) => "",
            (_, Some(_), Some(_)) => " (comes twice)",
        };
        self.log(|now| {
            format!(
                "{:>12} {from:>3} -> {to} {payload:?}{fate}",
                now.to_string()
            )
        });
        if !open {
            return;
        }
        let sent = self.now;
        let out = match self.hosts.get_mut(from) {
            Some(host) => host.uplink.enqueue(self.network.sending, sent, kind),
            None => Duration::ZERO,
        };
        let arrival = |payload| Scheduled::Arrival {
            from,
            to,
            sent,
            payload,
        };
        if let Some(second) = way.second {
            self.after(out + second, arrival(payload.clone()));
        }
        if let Some(first) = way.first {
            self.after(out + first, arrival(payload));
        }
    }

    fn write(&mut self, node: NodeId, stable: DurableState) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(node) else {
            return;
        };
        let takes = host.disk.takes.unwrap_or_else(|| {
            let least = WRITE / 8;
            host.rng.between(least, WRITE)
        });
        let done = host.disk.busy_until.max(now) + takes;
        host.disk.busy_until = done;
        host.disk.pending.push_back(stable);
        let incarnation = host.incarnation;
        self.at(done, Scheduled::Written(node, incarnation));
    }

    fn start_task(&mut self, node: NodeId, epoch: Option<Epoch>) {
        let Some(host) = self.hosts.get_mut(node) else {
            return;
        };
        host.tasks += 1;
        let number = host.tasks;
        host.task = Some(RunningTask { number, epoch });
        self.record(node, EventKind::TaskStarted(epoch));
        if self.config.writes_every.is_some() {
            self.after(Duration::ZERO, Scheduled::TaskWrite(node, number));
        }
    }

    fn task_write(&mut self, node: NodeId, number: u64) {
        let Some(every) = self.config.writes_every else {
            return;
        };
        let Some(host) = self.hosts.get(node) else {
            return;
        };
        let Some(task) = host.task.filter(|task| task.number == number) else {
            return;
        };
        let pause = host.pause.filter(|pause| !pause.task_goes_on);
        if pause.is_none() {
            let receiver = NodeId(u32::MAX);
            let way = self
                .network
                .deliveries("write", (node, receiver), &mut self.network_rng);
            for pause in [way.first, way.second].into_iter().flatten() {
                self.after(pause, Scheduled::WriteArrival(node, task.epoch));
            }
        }
        let pause = self.rng.between(every / 2, every * 3 / 2);
        self.after(pause, Scheduled::TaskWrite(node, number));
    }

    pub(super) fn end_task(&mut self, node: NodeId, pause: Duration, end: TaskEnd) {
        if let Some(task) = self.hosts.get(node).and_then(|host| host.task) {
            self.after(pause, Scheduled::TaskEnd(node, task.number, end));
        }
    }
}

//! The effects of faults.

use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::lease::candidate::EndReason;

use super::host::{Host, host_of};
use super::world::Scheduled;
use super::{Context, Fault, HistoryEventKind, ProcessInput, Target, Time, World};

impl World {
    pub(super) fn inject(&mut self, fault: &Fault) {
        if self.is_calm {
            return;
        }
        self.record(NodeId(0), HistoryEventKind::Fault(fault.to_string()));
        match fault {
            Fault::Crash(who, back_after) | Fault::PowerCut(who, back_after) => {
                let machine_up = matches!(fault, Fault::Crash(..));
                for node in self.resolve(*who) {
                    self.crash(node, machine_up);
                    self.back_after(node, *back_after);
                }
            }
            Fault::Start(who) => {
                for node in self.resolve(*who) {
                    self.start_after(node, Duration::ZERO);
                }
            }
            Fault::Freeze(who, time) => self.pause(*who, *time, false),
            Fault::Suspend(who, time) => self.pause(*who, *time, true),
            Fault::CutOneWay(from, to) => {
                for from in self.resolve(*from) {
                    for to in self.resolve(*to) {
                        self.network.cut(from, to);
                    }
                }
            }
            Fault::Part(side) => {
                let side: Vec<NodeId> = side.iter().flat_map(|&it| self.resolve(it)).collect();
                let all: Vec<NodeId> = self.hosts.keys().copied().collect();
                for &context in &side {
                    for &there in all.iter().filter(|it| !side.contains(it)) {
                        self.network.cut(context, there);
                        self.network.cut(there, context);
                    }
                }
            }
            Fault::Heal => self.network.heal(),
            Fault::Links(link) => self.network.everywhere = *link,
            Fault::HostLinks(who, link) => {
                for node in self.resolve(*who) {
                    self.network.set_host(node, *link);
                }
            }
            Fault::Kind {
                kind,
                from,
                to,
                link,
            } => {
                for from in self.resolve(*from) {
                    for to in self.resolve(*to) {
                        self.network.set_kind(kind, from, to, *link);
                    }
                }
            }
            Fault::SlowDisk(who, takes) => self.each(*who, |host, _| {
                host.disk.takes = (!takes.is_zero()).then_some(*takes);
            }),
            Fault::ClockRate(who, ppm) => {
                self.each(*who, |host, now| host.clock.set_rate(now, *ppm));
                // The timers of the host are now due at a different true time.
                for node in self.resolve(*who) {
                    self.reschedule_wake(node);
                }
            }
            Fault::WallClock(who, by) => self.each(*who, |host, _| host.clock.set_wall(*by)),
            Fault::Resign(who) => self.send_input(*who, &ProcessInput::Resign(EndReason::Resigned)),
            Fault::Leave(who, back_after) => {
                let nodes = self.resolve(*who);
                self.send_input(*who, &ProcessInput::Leave);
                for node in nodes {
                    self.back_after(node, *back_after);
                }
            }
            Fault::TaskEnds(who, end) => {
                for node in self.resolve(*who) {
                    self.end_task(node, Duration::ZERO, *end);
                }
            }
            Fault::Algorithm(target, algorithm) => {
                for node in self.resolve(*target) {
                    self.factory.set_algorithm(node, algorithm);
                }
            }
            Fault::Break(period) => self.send_input(Target::Store, &ProcessInput::Break(*period)),
        }
    }

    fn back_after(&mut self, node: NodeId, pause: Option<Duration>) {
        match pause {
            Some(pause) => self.start_after(node, pause),
            None => host_of(&mut self.hosts, node).gone = true,
        }
    }

    fn each(&mut self, who: Target, mut act: impl FnMut(&mut Host, Time)) {
        let now = self.now;
        for node in self.resolve(who) {
            act(host_of(&mut self.hosts, node), now);
        }
    }

    fn reschedule_wake(&mut self, node: NodeId) {
        host_of(&mut self.hosts, node).wake_at = None;
        self.drive(node, ProcessInput::Wake);
    }

    /// Hands an input to the target unless it is frozen.
    fn send_input(&mut self, who: Target, input: &ProcessInput) {
        for node in self.resolve(who) {
            if self.hosts[&node].is_awake() {
                self.drive(node, input.clone());
            }
        }
    }

    pub(super) fn start(&mut self, node: NodeId) {
        let now = self.now;
        let host = host_of(&mut self.hosts, node);
        if host.process.is_some() {
            return;
        }
        host.incarnation += 1;
        host.machine_up = true;
        host.gone = false;
        let incarnation = host.incarnation;
        let mut effects = Vec::new();
        let sending = self.network.sending;
        let mut context = Context {
            now: host.clock.read(now),
            wall: host.clock.wall(now),
            rng: &mut host.rng,
            effects: &mut effects,
            uplink: (sending, now, host.uplink),
        };
        let stable = host.disk.durable.as_ref();
        host.process = Some(self.factory.start(node, incarnation, stable, &mut context));
        self.record(node, HistoryEventKind::Started);
        self.execute_all(node, &mut effects);
    }

    /// Ends the process and its task. The first of the pending writes may have reached the disk, in
    /// order.
    fn crash(&mut self, node: NodeId, machine_up: bool) {
        let now = self.now;
        let host = host_of(&mut self.hosts, node);
        host.machine_up = machine_up;
        if host.process.take().is_none() {
            return;
        }
        host.incarnation += 1;
        host.paused_until = None;
        host.backlog.clear();
        host.wake_at = None;
        host.claim = None;
        host.seen_leader = None;
        let arrived = self.rng.below(host.disk.pending.len() as u64 + 1);
        for _ in 0..arrived {
            host.disk.durable = host.disk.pending.pop_front();
        }
        host.disk.pending.clear();
        host.disk.busy_until = now;
        let task = host.task.take();
        if let Some(task) = task {
            self.record(node, HistoryEventKind::TaskEnded(task.epoch));
        }
        self.record(node, HistoryEventKind::Stopped);
        if machine_up {
            // The connections of the process break.
            let others: Vec<NodeId> = self.hosts.keys().copied().collect();
            let is_store = self.factory.is_store(node);
            for other in others.into_iter().filter(|&other| other != node) {
                if is_store || self.factory.is_store(other) {
                    self.refuse(node, other);
                }
            }
        }
    }

    /// Ends a process that exits by itself.
    pub(super) fn exit(&mut self, node: NodeId) {
        // Its pending writes still reach the disk.
        let disk = &mut host_of(&mut self.hosts, node).disk;
        if let Some(last) = disk.pending.drain(..).next_back() {
            disk.durable = Some(last);
        }
        self.crash(node, true);
        self.record_quorum();
    }

    fn pause(&mut self, who: Target, time: Duration, suspended: bool) {
        let now = self.now;
        let until = now + time;
        for node in self.resolve(who) {
            let host = host_of(&mut self.hosts, node);
            if host.process.is_none() || host.paused_until.is_some() {
                continue;
            }
            host.paused_until = Some(until);
            let incarnation = host.incarnation;
            self.record(node, HistoryEventKind::Paused(until));
            let stopped = suspended.then_some(now);
            self.at(until, Scheduled::Resume(node, incarnation, stopped));
        }
    }

    pub(super) fn resume(&mut self, node: NodeId, incarnation: u64, stopped: Option<Time>) {
        let now = self.now;
        let counts_suspensions = self.factory.counts_suspensions(node);
        let host = host_of(&mut self.hosts, node);
        if host.incarnation != incarnation || host.paused_until.is_none_or(|until| now < until) {
            return;
        }
        if let Some(stopped) = stopped.filter(|_| !counts_suspensions) {
            host.clock.stood_still(stopped, now);
        }
        host.paused_until = None;
        host.wake_at = None;
        // The process handles the messages that waited in its sockets before its timers.
        let backlog = std::mem::take(&mut host.backlog);
        self.record(node, HistoryEventKind::Resumed);
        for scheduled in backlog {
            self.deliver(scheduled);
        }
        self.drive(node, ProcessInput::Wake);
    }

    /// Ends all faults.
    pub(super) fn end_faults(&mut self) {
        self.network.calm();
        let nodes: Vec<NodeId> = self.hosts.keys().copied().collect();
        let now = self.now;
        for node in nodes {
            let host = host_of(&mut self.hosts, node);
            host.disk.takes = None;
            let (incarnation, gone) = (host.incarnation, host.gone);
            if let Some(until) = &mut host.paused_until {
                *until = now;
                self.resume(node, incarnation, None);
            }
            if !gone {
                self.start_after(node, Duration::ZERO);
            }
        }
        self.is_calm = true;
        self.record(NodeId(0), HistoryEventKind::FaultsOver);
    }
}

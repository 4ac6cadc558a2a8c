//! Executes the effects of processes, and runs their tasks.

use std::rc::Rc;
use std::time::Duration;

use tenure_core::election::TaskEnd;
use tenure_core::{Epoch, NodeId};

use super::host::{RunningTask, host_of};
use super::world::Scheduled;
use super::{DurableState, HistoryEventKind, ProcessEffect, SimMessage, TaskStop, World};

/// The longest time of a write to a disk, if no fault sets another one.
pub(super) const WRITE: Duration = Duration::from_millis(4);

impl World {
    pub(super) fn execute(&mut self, node: NodeId, effect: ProcessEffect) {
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
            ProcessEffect::Record(event) => self.record(node, event),
            ProcessEffect::Exit => self.exit(node),
            ProcessEffect::SeesLeader(leader) => {
                let host = host_of(&mut self.hosts, node);
                if host.seen_leader != leader {
                    host.seen_leader = leader;
                    self.record(node, HistoryEventKind::SeesLeader(leader));
                }
            }
        }
    }

    pub(super) fn send(&mut self, from: NodeId, to: NodeId, payload: Rc<dyn SimMessage>) {
        // The end of a connection does not count as a message.
        if payload.is_message() && self.config.count_bytes {
            self.traffic.count(payload.is_detection(), payload.bytes());
            self.traffic_log.record(self.now, self.traffic);
        } else if payload.is_message() {
            self.traffic.count(payload.is_detection(), 0);
        }
        let kind = payload.kind();
        let [first, second] = (self.network).delays(kind, (from, to), &mut self.network_rng);
        let open = self.network.is_open(from, to);
        let fate = match (open, first, second) {
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
        let uplink = &mut host_of(&mut self.hosts, from).uplink;
        let out = uplink.enqueue(self.network.sending, sent, kind);
        let arrival = |payload| Scheduled::Arrival {
            from,
            to,
            sent,
            payload,
        };
        if let Some(second) = second {
            self.after(out + second, arrival(payload.clone()));
        }
        if let Some(first) = first {
            let at = self.network.arrival((from, to), sent + (out + first));
            self.at(at, arrival(payload));
        }
    }

    pub(super) fn write(&mut self, node: NodeId, stable: DurableState) {
        let now = self.now;
        self.traffic.durable_writes += 1;
        if self.config.count_bytes {
            self.traffic_log.record(now, self.traffic);
        }
        let host = host_of(&mut self.hosts, node);
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

    pub(super) fn start_task(&mut self, node: NodeId, epoch: Option<Epoch>) {
        let host = host_of(&mut self.hosts, node);
        host.tasks += 1;
        let number = host.tasks;
        host.task = Some(RunningTask { number, epoch });
        self.record(node, HistoryEventKind::TaskStarted(epoch));
        if self.config.writes_every.is_some() {
            self.after(Duration::ZERO, Scheduled::TaskWrite(node, number));
        }
    }

    pub(super) fn task_write(&mut self, node: NodeId, number: u64) {
        let Some(every) = self.config.writes_every else {
            return;
        };
        let host = &self.hosts[&node];
        let Some(task) = host.task.filter(|task| task.number == number) else {
            return;
        };
        if host.paused_until.is_none() {
            let receiver = NodeId(u32::MAX);
            let delays = self
                .network
                .delays("write", (node, receiver), &mut self.network_rng);
            for pause in delays.into_iter().flatten() {
                self.after(pause, Scheduled::WriteArrival(node, task.epoch));
            }
        }
        let pause = self.rng.between(every / 2, every * 3 / 2);
        self.after(pause, Scheduled::TaskWrite(node, number));
    }

    pub(super) fn end_task(&mut self, node: NodeId, pause: Duration, end: TaskEnd) {
        if let Some(task) = self.hosts[&node].task {
            self.after(pause, Scheduled::TaskEnd(node, task.number, end));
        }
    }
}

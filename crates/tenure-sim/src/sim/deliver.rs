//! Delivers due events to hosts and their processes.

use std::time::Duration;

use tenure_core::NodeId;

use super::host::host_of;
use super::world::Scheduled;
use super::{Context, HistoryEventKind, ProcessEffect, ProcessInput, Time, World};

impl World {
    pub(super) fn dispatch(&mut self, scheduled: Scheduled) {
        let is_change = matches!(
            scheduled,
            Scheduled::Fault(_)
                | Scheduled::EndFaults
                | Scheduled::Start(_)
                | Scheduled::Resume(..)
        );
        match scheduled {
            Scheduled::Fault(number) => self.inject(&self.faults[number].clone()),
            Scheduled::EndFaults => self.end_faults(),
            Scheduled::Start(node) => self.start(node),
            Scheduled::Resume(node, incarnation, stopped) => {
                self.resume(node, incarnation, stopped)
            }
            Scheduled::WriteArrival(node, epoch) => {
                // Without an epoch, the receiver has nothing to check.
                let taken = epoch.is_none_or(|epoch| self.receiver.admit(epoch).is_ok());
                self.record(node, HistoryEventKind::Wrote { epoch, taken });
            }
            Scheduled::TaskWrite(node, number) => self.task_write(node, number),
            scheduled => self.deliver(scheduled),
        }
        if is_change {
            self.record_quorum();
        }
    }

    /// Delivers an event to a process. Events for a frozen process are queued.
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
        let host = host_of(&mut self.hosts, node);
        if host.paused_until.is_some() {
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
                self.record(node, HistoryEventKind::TaskEnded(epoch));
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

    /// Reports to one host that no process listens on another host.
    pub(super) fn refuse(&mut self, of: NodeId, to: NodeId) {
        if !self.network.is_open(of, to) {
            return;
        }
        let incarnation = self.hosts[&to].incarnation;
        let [delay, _] = self
            .network
            .delays("refused", (of, to), &mut self.network_rng);
        if let Some(pause) = delay {
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
        let host = host_of(&mut self.hosts, node);
        if let Some(process) = &mut host.process {
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

    /// Records a change in the process's claim to lead.
    pub(super) fn update_claim(&mut self, node: NodeId) {
        let now = self.now;
        let host = host_of(&mut self.hosts, node);
        let local = host.clock.read(now);
        let claim = host.process.as_ref().and_then(|it| it.claim(local));
        let claim = claim.map(|claim| {
            let until = claim.until.map_or(Time::NEVER, |it| host.clock.when(it));
            (claim.epoch, until)
        });
        if claim != host.claim {
            let before = std::mem::replace(&mut host.claim, claim);
            match claim {
                Some((epoch, until)) => self.record(node, HistoryEventKind::Claims(epoch, until)),
                None if before.is_some_and(|(_, until)| now < until) => {
                    self.record(node, HistoryEventKind::Yields);
                }
                None => {}
            }
        }
    }

    pub(super) fn schedule_wake(&mut self, node: NodeId) {
        let now = self.now;
        let host = host_of(&mut self.hosts, node);
        let Some(due) = host.process.as_ref().and_then(|it| it.poll_timeout()) else {
            return;
        };
        if host.paused_until.is_some() {
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

    pub(super) fn execute_all(&mut self, node: NodeId, effects: &mut Vec<ProcessEffect>) {
        for effect in effects.drain(..) {
            self.execute(node, effect);
        }
        self.update_claim(node);
        self.schedule_wake(node);
    }
}

//! What faults do to the world.

use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::lease::candidate::EndReason;

use super::place::Still;
use super::world::Happening;
use super::{Here, Input, Time, What, World};
use crate::fault::{Fault, Who};

impl World {
    pub(super) fn strike(&mut self, fault: &Fault) {
        if self.is_calm {
            return;
        }
        self.note(NodeId(0), What::Fault(fault.to_string()));
        match fault {
            Fault::Crash {
                who,
                machine,
                back_after,
            } => {
                for node in self.who(*who) {
                    self.crash(node, !machine);
                    self.back_after(node, *back_after);
                }
            }
            Fault::Start(who) => {
                for node in self.who(*who) {
                    self.start_after(node, Duration::ZERO);
                }
            }
            Fault::Freeze(who, time) => self.stop(*who, *time, false, false),
            Fault::Suspend(who, time) => self.stop(*who, *time, true, false),
            Fault::Block(who, time) => self.stop(*who, *time, false, true),
            Fault::CutOneWay(from, to) => {
                for from in self.who(*from) {
                    for to in self.who(*to) {
                        self.network.cut(from, to);
                    }
                }
            }
            Fault::Part(side) => {
                let side: Vec<NodeId> = side.iter().flat_map(|&it| self.who(it)).collect();
                let all: Vec<NodeId> = self.places.nodes().collect();
                for &here in &side {
                    for &there in all.iter().filter(|it| !side.contains(it)) {
                        self.network.cut(here, there);
                        self.network.cut(there, here);
                    }
                }
            }
            Fault::Heal => self.network.heal(),
            Fault::Links(link) => self.network.everywhere = *link,
            Fault::Kind {
                kind,
                from,
                to,
                link,
            } => {
                for from in self.who(*from) {
                    for to in self.who(*to) {
                        self.network.set_kind(kind, from, to, *link);
                    }
                }
            }
            Fault::SlowDisk(who, takes) => self.each(*who, |place, _| {
                place.disk.takes = (!takes.is_zero()).then_some(*takes);
            }),
            Fault::ClockRate(who, ppm) => {
                self.each(*who, |place, now| place.clock.set_rate(now, *ppm));
                // What was to happen by the clock happens at another time now.
                for node in self.who(*who) {
                    self.rearm(node);
                }
            }
            Fault::WallClock(who, by) => self.each(*who, |place, _| place.clock.set_wall(*by)),
            Fault::Resign(who) => self.tell(*who, &Input::Resign(EndReason::Resigned)),
            Fault::Leave(who, back_after) => {
                let nodes = self.who(*who);
                self.tell(*who, &Input::Leave);
                for node in nodes {
                    self.back_after(node, *back_after);
                }
            }
            Fault::TaskEnds(who, end) => {
                for node in self.who(*who) {
                    self.end_task(node, Duration::ZERO, *end);
                }
            }
            Fault::Break(period) => self.tell(Who::Store, &Input::Break(*period)),
        }
    }

    fn back_after(&mut self, node: NodeId, pause: Option<Duration>) {
        match (pause, self.place(node)) {
            (Some(pause), _) => self.start_after(node, pause),
            (None, Some(place)) => place.gone = true,
            (None, None) => {}
        }
    }

    fn each(&mut self, who: Who, mut act: impl FnMut(&mut super::place::Place, Time)) {
        let now = self.now;
        for node in self.who(who) {
            if let Some(place) = self.place(node) {
                act(place, now);
            }
        }
    }

    fn rearm(&mut self, node: NodeId) {
        if let Some(place) = self.place(node) {
            place.armed = None;
        }
        self.drive(node, Input::Wake);
    }

    /// Nobody can be told anything who stands still.
    fn tell(&mut self, who: Who, input: &Input) {
        for node in self.who(who) {
            if self.places.get(node).is_some_and(|it| it.is_awake()) {
                self.drive(node, input.clone());
            }
        }
    }

    pub(super) fn start(&mut self, node: NodeId) {
        let now = self.now;
        let Some(place) = self.places.get_mut(node) else {
            return;
        };
        if place.process.is_some() {
            return;
        }
        place.life += 1;
        place.machine_up = true;
        place.gone = false;
        let life = place.life;
        let mut effects = Vec::new();
        let sending = self.network.sending;
        let mut here = Here {
            now: place.clock.read(now),
            wall: place.clock.wall(now),
            dice: &mut place.dice,
            effects: &mut effects,
            line: (sending, now, place.line),
        };
        let stable = place.disk.durable.as_ref();
        place.process = Some(self.cast.start(node, life, stable, &mut here));
        self.note(node, What::Starts);
        self.obey_all(node, &mut effects);
    }

    /// The process is gone, and its task with it. Of what was on its way to the disk a part may have
    /// arrived, in its order.
    fn crash(&mut self, node: NodeId, machine_up: bool) {
        let now = self.now;
        let Some(place) = self.places.get_mut(node) else {
            return;
        };
        place.machine_up = machine_up;
        if place.process.take().is_none() {
            return;
        }
        place.life += 1;
        place.still = None;
        place.backlog.clear();
        place.armed = None;
        place.claim = None;
        place.sees = None;
        let arrived = self.dice.below(place.disk.under_way.len() as u64 + 1);
        for _ in 0..arrived {
            place.disk.durable = place.disk.under_way.pop_front();
        }
        place.disk.under_way.clear();
        place.disk.busy_until = now;
        let task = place.task.take();
        if let Some(task) = task {
            self.note(node, What::Rests(task.epoch));
        }
        self.note(node, What::Stops);
        if machine_up {
            // Its connections break off.
            let others: Vec<NodeId> = self.places.nodes().collect();
            let is_store = self.cast.is_store(node);
            for other in others.into_iter().filter(|&other| other != node) {
                if is_store || self.cast.is_store(other) {
                    self.refuse(node, other);
                }
            }
        }
    }

    /// The process has left by itself.
    pub(super) fn exit(&mut self, node: NodeId) {
        // What it wanted to be written is.
        if let Some(place) = self.place(node)
            && let Some(last) = place.disk.under_way.drain(..).next_back()
        {
            place.disk.durable = Some(last);
        }
        self.crash(node, true);
    }

    fn stop(&mut self, who: Who, time: Duration, suspended: bool, task_goes_on: bool) {
        let now = self.now;
        let until = now + time;
        for node in self.who(who) {
            let Some(place) = self.places.get_mut(node) else {
                continue;
            };
            if place.process.is_none() || place.still.is_some() {
                continue;
            }
            place.still = Some(Still {
                until,
                task_goes_on,
            });
            let life = place.life;
            if !task_goes_on {
                self.note(node, What::Freezes(until));
            }
            let stopped = suspended.then_some(now);
            self.at(until, Happening::Thaws(node, life, stopped));
        }
    }

    pub(super) fn thaw(&mut self, node: NodeId, life: u64, stopped: Option<Time>) {
        let now = self.now;
        let counts_suspensions = self.cast.counts_suspensions(node);
        let Some(place) = self.places.get_mut(node) else {
            return;
        };
        if place.life != life || place.still.is_none_or(|still| now < still.until) {
            return;
        }
        if let Some(stopped) = stopped.filter(|_| !counts_suspensions) {
            place.clock.stood_still(stopped, now);
        }
        let still = place.still.take();
        place.armed = None;
        // What waited in the sockets comes before what time has brought about.
        let backlog = std::mem::take(&mut place.backlog);
        if still.is_some_and(|still| !still.task_goes_on) {
            self.note(node, What::Thaws);
        }
        for happening in backlog {
            self.process_hears(happening);
        }
        self.drive(node, Input::Wake);
    }

    /// Everything is well from here on.
    pub(super) fn calm(&mut self) {
        self.network.calm();
        let nodes: Vec<NodeId> = self.places.nodes().collect();
        let now = self.now;
        for node in nodes {
            let Some(place) = self.places.get_mut(node) else {
                continue;
            };
            place.disk.takes = None;
            let (life, gone) = (place.life, place.gone);
            if let Some(still) = &mut place.still {
                still.until = now;
                self.thaw(node, life, None);
            }
            if !gone {
                self.start_after(node, Duration::ZERO);
            }
        }
        self.is_calm = true;
        self.note(NodeId(0), What::Calm);
    }
}

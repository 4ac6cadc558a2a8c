//! The world: what is due next, and what comes of it.

use std::time::Duration;

use tenure_core::fence::Gate;
use tenure_core::lease::candidate::TaskEnd;
use tenure_core::{Epoch, Instant, NodeId};

use super::place::{Going, Place, Places};
use super::queue::Queue;
use super::{
    Cast, Clock, Dice, Effect, Event, Here, Input, Ledger, Network, Payload, Stable, Time, Traffic,
    What,
};
use crate::fault::{Fault, Who};

/// How long a write to a disk takes at most, where nothing else is set.
const WRITE: Duration = Duration::from_millis(4);

/// The streams of random numbers of a run. Those of the machines come after.
const NETWORK: u64 = 1;
const WORLD: u64 = 2;
const MACHINES: u64 = 1_000;

/// How leaders' tasks and the machines behave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Habits {
    /// How long a task takes that was told to stop.
    pub task: Task,
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
pub enum Task {
    /// As chance will have it, and sometimes so long that it is aborted.
    Any,
    /// As long as it may: it is aborted each time, and uses up what time it has then.
    Slowest,
    /// So long.
    Takes(Duration),
}

impl Default for Habits {
    /// Tasks that stop after a tenth of a second, clocks that are right.
    fn default() -> Self {
        Self {
            task: Task::Takes(Duration::from_millis(100)),
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
pub(super) enum Happening {
    Wake(NodeId),
    Arrives {
        from: NodeId,
        to: NodeId,
        sent: Time,
        payload: Payload,
    },
    Refused {
        of: NodeId,
        to: NodeId,
        life: u64,
    },
    Written(NodeId, u64),
    TaskOver(NodeId, u64, TaskEnd),
    TaskWrites(NodeId, u64),
    ReceiverHears(NodeId, Option<Epoch>),
    Strikes(usize),
    Starts(NodeId),
    Thaws(NodeId, u64, Option<Time>),
    Calms,
}

/// Machines, what runs on them, and what lies between.
pub struct World {
    pub(super) cast: Box<dyn Cast>,
    pub(super) now: Time,
    pub(super) network: Network,
    pub(super) places: Places,
    pub(super) habits: Habits,
    faults: Vec<Fault>,
    /// No fault happens any more.
    pub(super) is_calm: bool,
    pub(super) dice: Dice,
    network_dice: Dice,
    queue: Queue<Happening>,
    receiver: Gate,
    history: Vec<Event>,
    traffic: Traffic,
    ledger: Ledger,
    trace: Option<Vec<String>>,
    /// Reused between the steps.
    effects: Vec<Effect>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now)
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

impl World {
    /// A world with this cast, in which nothing runs yet.
    #[must_use]
    pub fn new(cast: Box<dyn Cast>, habits: Habits, seed: u64) -> Self {
        let mut dice = Dice::new(seed, WORLD);
        let mut place = |node: NodeId| {
            let origin = dice.between(Duration::ZERO, Duration::from_secs(100_000));
            let ppm = dice.below(2 * habits.drift + 1).cast_signed() - habits.drift.cast_signed();
            let own = Dice::new(seed, MACHINES + u64::from(node.0));
            Place::new(node, Clock::new(origin, ppm), own)
        };
        let places = cast.machines().into_iter();
        let places = Places::new(places.map(&mut place).collect());
        Self {
            cast,
            now: Time::default(),
            network: Network::default(),
            places,
            habits,
            faults: Vec::new(),
            is_calm: false,
            dice,
            network_dice: Dice::new(seed, NETWORK),
            queue: Queue::default(),
            receiver: Gate::new(),
            history: Vec::new(),
            traffic: Traffic::default(),
            ledger: Ledger::default(),
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
        self.places.nodes().collect()
    }

    /// What has happened, in order.
    #[must_use]
    pub fn history(&self) -> &[Event] {
        &self.history
    }

    /// How much was sent.
    #[must_use]
    pub const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// What was sent when, where bytes are counted.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// A line for everything that happened, if it was asked for.
    #[must_use]
    pub fn trace(&self) -> &[String] {
        self.trace.as_deref().unwrap_or_default()
    }

    /// Who holds itself to lead.
    #[must_use]
    pub fn leaders(&self) -> Vec<NodeId> {
        let claims = self.places.iter().filter(|place| {
            let valid = place.claim.is_some_and(|(_, until)| self.now < until);
            valid && place.process.is_some()
        });
        claims.map(|place| place.node).collect()
    }

    /// Whom each machine whose process runs sees to lead; the store not.
    #[must_use]
    pub fn opinions(&self) -> Vec<(NodeId, Option<NodeId>)> {
        let places = self.places.iter();
        let runs =
            places.filter(|place| place.process.is_some() && !self.cast.is_store(place.node));
        runs.map(|place| (place.node, place.sees)).collect()
    }

    /// Starts this machine's process after so long.
    pub fn start_after(&mut self, node: NodeId, pause: Duration) {
        self.after(pause, Happening::Starts(node));
    }

    /// Lets this happen after so long.
    pub fn strike_after(&mut self, pause: Duration, fault: Fault) {
        self.faults.push(fault);
        self.after(pause, Happening::Strikes(self.faults.len() - 1));
    }

    /// After so long everything is well, and stays so, but for who is gone for good.
    pub fn calm_after(&mut self, pause: Duration) {
        self.after(pause, Happening::Calms);
    }

    /// Goes on until so long after the beginning, or until more messages were sent than anybody can
    /// mean.
    pub fn run_until(&mut self, end: Duration) {
        let end = Time::after(end);
        while self.traffic.messages() < self.habits.most_messages
            && let Some((at, happening)) = self.queue.pop_until(end)
        {
            self.now = at;
            self.happen(happening);
        }
        if self.traffic.messages() < self.habits.most_messages {
            self.now = end;
        }
    }

    /// The run is over.
    pub fn finish(&mut self) {
        if self.traffic.messages() >= self.habits.most_messages {
            self.note(NodeId(0), What::Flood);
        }
        self.note(NodeId(0), What::End);
    }

    pub(super) fn after(&mut self, pause: Duration, happening: Happening) {
        self.at(self.now + pause, happening);
    }

    pub(super) fn at(&mut self, at: Time, happening: Happening) {
        self.queue.push(at, happening);
    }

    pub(super) fn note(&mut self, node: NodeId, what: What) {
        let event = Event {
            at: self.now,
            node,
            what,
        };
        if let Some(trace) = &mut self.trace {
            trace.push(event.to_string());
        }
        self.history.push(event);
    }

    fn say(&mut self, line: impl FnOnce(Time) -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line(self.now));
        }
    }

    pub(super) fn place(&mut self, node: NodeId) -> Option<&mut Place> {
        self.places.get_mut(node)
    }

    /// The machines that are meant just now.
    pub(super) fn who(&self, who: Who) -> Vec<NodeId> {
        let leaders = self.leaders();
        let others = || self.places.iter().filter(|it| !leaders.contains(&it.node));
        match who {
            Who::Node(node) => vec![node],
            Who::Leader => leaders,
            Who::BestOther => {
                let runs = others().filter(|it| it.process.is_some());
                let best = runs.map(|it| it.node).find(|&it| !self.cast.is_store(it));
                best.into_iter().collect()
            }
            Who::Store => {
                let stores = self.places.nodes();
                stores.filter(|&it| self.cast.is_store(it)).collect()
            }
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Strikes(number) => self.strike(&self.faults[number].clone()),
            Happening::Calms => self.calm(),
            Happening::Starts(node) => self.start(node),
            Happening::Thaws(node, life, stopped) => self.thaw(node, life, stopped),
            Happening::ReceiverHears(node, epoch) => {
                // Without an epoch there is nothing to check.
                let taken = epoch.is_none_or(|epoch| self.receiver.admit(epoch).is_ok());
                self.note(node, What::Wrote { epoch, taken });
            }
            Happening::TaskWrites(node, number) => self.task_writes(node, number),
            happening => self.process_hears(happening),
        }
    }

    /// What goes to one process, which may stand still.
    pub(super) fn process_hears(&mut self, happening: Happening) {
        let node = match &happening {
            Happening::Wake(node)
            | Happening::Written(node, _)
            | Happening::TaskOver(node, ..)
            | Happening::Arrives { to: node, .. }
            | Happening::Refused { to: node, .. } => *node,
            _ => return,
        };
        let now = self.now;
        let Some(place) = self.place(node) else {
            return;
        };
        if place.still.is_some() {
            if matches!(happening, Happening::Wake(_)) {
                place.armed = None;
            } else {
                place.backlog.push(happening);
            }
            return;
        }
        let input = match happening {
            Happening::Wake(_) => {
                if place.armed != Some(now) {
                    return;
                }
                place.armed = None;
                Input::Wake
            }
            Happening::Written(_, life) => {
                if place.life != life {
                    return;
                }
                let Some(stable) = place.disk.under_way.pop_front() else {
                    return;
                };
                place.disk.durable = Some(stable);
                Input::Written
            }
            Happening::TaskOver(_, number, end) => {
                if place.task.is_none_or(|task| task.number != number) {
                    return;
                }
                let epoch = place.task.take().and_then(|task| task.epoch);
                self.note(node, What::Rests(epoch));
                Input::TaskEnded(end)
            }
            Happening::Refused { of, life, .. } => {
                if place.life != life {
                    return;
                }
                Input::Refused(of)
            }
            Happening::Arrives {
                from,
                sent,
                payload,
                ..
            } => {
                if place.process.is_none() {
                    if place.machine_up {
                        self.refuse(node, from);
                    }
                    return;
                }
                if !self.network.is_open(from, node) {
                    return;
                }
                self.say(|now| format!("{:>12} {node:>3} <- {from} {payload:?}", now.to_string()));
                Input::Message {
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
        let Some(life) = self.places.get(to).map(|place| place.life) else {
            return;
        };
        let way = self
            .network
            .deliveries("refused", (of, to), &mut self.network_dice);
        if let Some(pause) = way.first {
            self.after(pause, Happening::Refused { of, to, life });
        }
    }

    pub(super) fn drive(&mut self, node: NodeId, input: Input) {
        let now = self.now;
        let mut effects = std::mem::take(&mut self.effects);
        if let Some(place) = self.places.get_mut(node)
            && let Some(process) = &mut place.process
        {
            let mut here = Here {
                now: place.clock.read(now),
                wall: place.clock.wall(now),
                dice: &mut place.dice,
                effects: &mut effects,
                line: (self.network.sending, now, place.line),
            };
            process.handle(&mut here, input);
        }
        self.obey_all(node, &mut effects);
        self.effects = effects;
    }

    pub(super) fn obey_all(&mut self, node: NodeId, effects: &mut Vec<Effect>) {
        for effect in effects.drain(..) {
            self.obey(node, effect);
        }
        self.look_at_claim(node);
        self.arm(node);
    }

    /// What the process now holds to be so.
    fn look_at_claim(&mut self, node: NodeId) {
        let now = self.now;
        let Some(place) = self.places.get_mut(node) else {
            return;
        };
        let local = place.clock.read(now);
        let claim = place.process.as_ref().and_then(|it| it.claim(local));
        let claim = claim.map(|claim| {
            let until = claim.until.map_or(Time::NEVER, |it| place.clock.when(it));
            (claim.epoch, until)
        });
        if claim != place.claim {
            let before = std::mem::replace(&mut place.claim, claim);
            match claim {
                Some((epoch, until)) => self.note(node, What::Claims(epoch, until)),
                None if before.is_some_and(|(_, until)| now < until) => {
                    self.note(node, What::Yields);
                }
                None => {}
            }
        }
    }

    pub(super) fn arm(&mut self, node: NodeId) {
        let now = self.now;
        let Some(place) = self.places.get_mut(node) else {
            return;
        };
        let Some(due) = place.process.as_ref().and_then(|it| it.due()) else {
            return;
        };
        if place.still.is_some() {
            return;
        }
        let wake = place.clock.when(due).max(now);
        if place.armed.is_none_or(|armed| wake < armed) {
            let late = match self.habits.late {
                Duration::ZERO => Duration::ZERO,
                late => place.dice.between(Duration::from_micros(1), late),
            };
            let wake = wake + late;
            if place.armed.is_none_or(|armed| wake < armed) {
                place.armed = Some(wake);
                self.at(wake, Happening::Wake(node));
            }
        }
    }

    fn obey(&mut self, node: NodeId, effect: Effect) {
        match effect {
            Effect::Send(to, payload) => self.send(node, to, payload),
            Effect::Write(stable) => self.write(node, stable),
            Effect::Began(epoch) => self.begin(node, epoch),
            Effect::Cancel(reason) => {
                self.say(|now| {
                    format!(
                        "{:>12} {node:>3} task told to stop: {reason}",
                        now.to_string()
                    )
                });
                let (grace, _) = self.cast.patience();
                let takes = match self.habits.task {
                    Task::Takes(takes) => takes,
                    Task::Slowest => return,
                    Task::Any => self.dice.between(Duration::ZERO, grace * 2),
                };
                self.end_task(node, takes, TaskEnd::Returned);
            }
            Effect::Abort => {
                self.say(|now| format!("{:>12} {node:>3} task aborted", now.to_string()));
                let (_, allowance) = self.cast.patience();
                let takes = match self.habits.task {
                    Task::Takes(takes) => takes.min(allowance),
                    Task::Slowest => allowance,
                    Task::Any => self.dice.between(Duration::ZERO, allowance),
                };
                self.end_task(node, takes, TaskEnd::Aborted);
            }
            Effect::Ended(reason) => self.note(node, What::Ended(reason)),
            Effect::Exit => self.exit(node),
            Effect::Sees(leader) => {
                if let Some(place) = self.place(node)
                    && place.sees != leader
                {
                    place.sees = leader;
                    self.note(node, What::Sees(leader));
                }
            }
            Effect::Granted { epoch, to, id, at } => {
                let at = self.when(node, at);
                self.note(node, What::Granted { epoch, to, id, at });
            }
            Effect::Counts(epoch, from, duration) => {
                let from = self.when(node, from);
                self.note(node, What::Counts(epoch, from, duration));
            }
            Effect::GivenUp(epoch) => self.note(node, What::GivenUp(epoch)),
            Effect::Failed(why) => self.note(node, What::Failed(why)),
        }
    }

    fn when(&self, node: NodeId, instant: Instant) -> Time {
        let place = self.places.get(node);
        place.map_or(self.now, |place| place.clock.when(instant))
    }

    fn send(&mut self, from: NodeId, to: NodeId, payload: Payload) {
        if !payload.is_message() {
            // It costs nothing worth counting.
        } else if self.habits.count_bytes {
            let bytes = payload.bytes();
            self.traffic.count(&payload, bytes);
            self.ledger.enter(self.now, &payload, bytes);
        } else {
            self.traffic.count(&payload, 0);
        }
        let kind = payload.kind();
        let way = (self.network).deliveries(kind, (from, to), &mut self.network_dice);
        let open = self.network.is_open(from, to);
        let fate = match (open, way.first, way.second) {
            (false, ..) => " (cut off)",
            (_, None, None) => " (lost)",
            (_, None, Some(_)) | (_, Some(_), None) => "",
            (_, Some(_), Some(_)) => " (comes twice)",
        };
        self.say(|now| {
            format!(
                "{:>12} {from:>3} -> {to} {payload:?}{fate}",
                now.to_string()
            )
        });
        if !open {
            return;
        }
        let sent = self.now;
        let out = match self.places.get_mut(from) {
            Some(place) => place.line.out(self.network.sending, sent, kind),
            None => Duration::ZERO,
        };
        let arrival = |payload| Happening::Arrives {
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

    fn write(&mut self, node: NodeId, stable: Stable) {
        let now = self.now;
        let Some(place) = self.places.get_mut(node) else {
            return;
        };
        let takes = place.disk.takes.unwrap_or_else(|| {
            let least = WRITE / 8;
            place.dice.between(least, WRITE)
        });
        let done = place.disk.busy_until.max(now) + takes;
        place.disk.busy_until = done;
        place.disk.under_way.push_back(stable);
        let life = place.life;
        self.at(done, Happening::Written(node, life));
    }

    fn begin(&mut self, node: NodeId, epoch: Option<Epoch>) {
        let Some(place) = self.places.get_mut(node) else {
            return;
        };
        place.tasks += 1;
        let number = place.tasks;
        let before = place.task.replace(Going { number, epoch });
        if let Some(before) = before {
            self.note(node, What::Rests(before.epoch));
        }
        self.note(node, What::Acts(epoch));
        if self.habits.writes_every.is_some() {
            self.after(Duration::ZERO, Happening::TaskWrites(node, number));
        }
    }

    fn task_writes(&mut self, node: NodeId, number: u64) {
        let Some(every) = self.habits.writes_every else {
            return;
        };
        let Some(place) = self.places.get(node) else {
            return;
        };
        let Some(task) = place.task.filter(|task| task.number == number) else {
            return;
        };
        let still = place.still.filter(|still| !still.task_goes_on);
        if still.is_none() {
            let receiver = NodeId(u32::MAX);
            let way = self
                .network
                .deliveries("write", (node, receiver), &mut self.network_dice);
            for pause in [way.first, way.second].into_iter().flatten() {
                self.after(pause, Happening::ReceiverHears(node, task.epoch));
            }
        }
        let pause = self.dice.between(every / 2, every * 3 / 2);
        self.after(pause, Happening::TaskWrites(node, number));
    }

    pub(super) fn end_task(&mut self, node: NodeId, pause: Duration, end: TaskEnd) {
        if let Some(task) = self.places.get(node).and_then(|place| place.task) {
            self.after(pause, Happening::TaskOver(node, task.number, end));
        }
    }
}

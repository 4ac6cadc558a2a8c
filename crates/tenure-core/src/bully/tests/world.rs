//! A world of members, their disks, tasks and clocks, and ways that delay, lose, repeat and cut.

extern crate std;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::*;

/// How wrong things go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Climate {
    pub(super) members: u32,
    pub(super) guarantee: GroupGuarantee,
    pub(super) preempt: bool,
    /// One message in so many is lost; another one comes twice.
    pub(super) loss: u64,
    /// How long a message takes at most, in milliseconds.
    pub(super) delay: u64,
    /// One answer of the detector in so many is wrong.
    pub(super) mistakes: u64,
    /// By how much each clock may be off in rate, in thousandths.
    pub(super) drift: u64,
    /// For how long things go wrong, in milliseconds, and what does.
    pub(super) trouble: u64,
    pub(super) faults: &'static [Fault],
    pub(super) without: Option<DisabledRule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Crash,
    Freeze,
    Part,
    Resign,
    TaskFails,
}

#[derive(Clone, Copy)]
enum Event {
    Deliver(NodeId, NodeId, PeerMessage),
    Answer(NodeId, NodeId, u64, u64),
    Written(NodeId, u64),
    TaskGone(NodeId, Epoch, TaskEnd),
    Restart(NodeId),
    Heal,
    Trouble,
}

struct Place {
    node: Option<PeerCandidate>,
    /// Which of its lives: what was for an earlier one does not arrive.
    life: u64,
    durable: HardState,
    unwritten: VecDeque<HardState>,
    /// The epoch of the task that is going.
    task: Option<Epoch>,
    frozen_until: u64,
    stood_still: bool,
    rate: u64,
    offset: u64,
    seen: Option<NodeId>,
}

pub(super) struct World {
    climate: Climate,
    pub(super) now: u64,
    dice: Dice,
    places: BTreeMap<NodeId, Place>,
    queue: BTreeMap<(u64, u64), Event>,
    count: u64,
    /// Those who are cut off from the rest.
    parted: BTreeSet<NodeId>,
    pub(super) epochs: Vec<Epoch>,
    pub(super) troubled: bool,
    pub(super) log: Vec<String>,
}

pub(super) fn timings() -> GroupTimings {
    let term = TermTimings::new(&TermOptions {
        lease_duration: Some(Duration::from_secs(3)),
        ..TermOptions::default()
    });
    let options = GroupTimingsOptions {
        hold_down: Some(Duration::from_secs(6)),
        message_lifetime: Some(millis(200)),
    };
    GroupTimings::new(term.unwrap(), &options).unwrap()
}

/// How long the detector waits for an answer.
const DETECTION: u64 = 400;

impl World {
    pub(super) fn new(climate: Climate, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let place = |dice: &mut Dice| Place {
            node: None,
            life: 0,
            durable: HardState::default(),
            unwritten: VecDeque::new(),
            task: None,
            frozen_until: 0,
            stood_still: false,
            rate: 1000 - climate.drift + dice.below(2 * climate.drift + 1),
            offset: dice.below(1_000_000),
            seen: None,
        };
        let ids = (1..=climate.members).map(NodeId);
        let mut world = Self {
            climate,
            now: 0,
            places: ids.map(|id| (id, place(&mut dice))).collect(),
            dice,
            queue: BTreeMap::new(),
            count: 0,
            parted: BTreeSet::new(),
            epochs: Vec::new(),
            troubled: true,
            log: Vec::new(),
        };
        for id in world.ids() {
            let pause = world.dice.below(2_000);
            world.after(pause, Event::Restart(id));
        }
        world.after(3_000, Event::Trouble);
        world
    }

    fn ids(&self) -> Vec<NodeId> {
        self.places.keys().copied().collect()
    }

    fn note(&mut self, line: &str) {
        self.log.push(format!("{:>7} {line}", self.now));
    }

    fn after(&mut self, pause: u64, event: Event) {
        self.count += 1;
        self.queue.insert((self.now + pause, self.count), event);
    }

    fn local(&self, id: NodeId) -> Instant {
        let place = &self.places[&id];
        Instant::from_nanos((place.offset + self.now) * 1_000 * place.rate)
    }

    /// The first millisecond at which the clock of `id` shows `instant`.
    fn real(&self, id: NodeId, instant: Instant) -> u64 {
        let place = &self.places[&id];
        let real = instant.as_nanos().div_ceil(1_000 * place.rate);
        real.saturating_sub(place.offset).max(self.now)
    }

    pub(super) fn run_until(&mut self, end: u64) {
        loop {
            let wake = self.ids().into_iter().filter_map(|id| {
                let place = &self.places[&id];
                let due = place.node.as_ref()?.poll_timeout()?;
                Some((self.real(id, due).max(place.frozen_until), id))
            });
            let wake = wake.min();
            let next = self.queue.keys().next().copied();
            match (wake, next) {
                (Some((time, id)), next) if next.is_none_or(|(event, _)| time < event) => {
                    if time > end {
                        break;
                    }
                    self.now = time;
                    self.drive(id, |node, now, dice| node.handle_timeout(now, dice));
                }
                (_, Some(key)) => {
                    if key.0 > end {
                        break;
                    }
                    let event = self.queue.remove(&key).unwrap();
                    self.now = key.0;
                    self.happen(event);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    /// Everything heals, everybody starts again, and there is time to settle.
    pub(super) fn settle(&mut self, time: u64) {
        self.troubled = false;
        self.parted.clear();
        for id in self.ids() {
            self.places.get_mut(&id).unwrap().frozen_until = 0;
            if self.places[&id].node.is_none() {
                self.start(id);
            }
        }
        self.run_until(self.now + time);
    }

    /// Who leads, in the opinion of each member.
    pub(super) fn opinions(&self) -> Vec<Option<NodeId>> {
        self.places.values().map(|place| place.seen).collect()
    }

    /// Whose task is going.
    /// The epoch of the task that is going there.
    pub(super) fn epoch_of(&self, id: NodeId) -> Option<Epoch> {
        self.places[&id].task
    }

    pub(super) fn leaders(&self) -> Vec<NodeId> {
        let going = self.places.iter().filter(|(_, place)| place.task.is_some());
        going.map(|(&id, _)| id).collect()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver(from, to, message) => {
                if self.is_cut(from, to) {
                    return;
                }
                if let Some(thaw) = self.frozen(to) {
                    return self.after(thaw - self.now, Event::Deliver(from, to, message));
                }
                self.input(to, PeerInput::Message { from, message });
            }
            Event::Answer(asker, node, round, life) => {
                if self.places[&asker].life != life {
                    return;
                }
                if let Some(thaw) = self.frozen(asker) {
                    return self.after(thaw - self.now, Event::Answer(asker, node, round, life));
                }
                let stands = self.places[&node]
                    .node
                    .as_ref()
                    .map(|n| n.stands(self.local(node)));
                let unseen = self.is_cut(asker, node) || self.frozen(node).is_some();
                let wrong = self.troubled && self.dice.one_in(self.climate.mistakes);
                let verdict = match stands {
                    Some(true) if !unseen && !wrong => Verdict::Up,
                    Some(false) if !unseen && !wrong => Verdict::NonCandidate,
                    _ => Verdict::Down,
                };
                self.input(
                    asker,
                    PeerInput::Answer {
                        node,
                        round,
                        verdict,
                    },
                );
            }
            Event::Written(id, life) => {
                let place = self.places.get_mut(&id).unwrap();
                if place.life == life {
                    place.durable = place.unwritten.pop_front().unwrap();
                    if let Some(thaw) = self.frozen(id) {
                        // The disk is done; the process hears of it when it runs again.
                        let record = self.places[&id].durable;
                        self.places
                            .get_mut(&id)
                            .unwrap()
                            .unwritten
                            .push_front(record);
                        return self.after(thaw - self.now, Event::Written(id, life));
                    }
                    self.input(id, PeerInput::Persisted);
                }
            }
            Event::TaskGone(id, epoch, end) => {
                if self.places[&id].task == Some(epoch) {
                    if let Some(thaw) = self.frozen(id) {
                        return self.after(thaw - self.now, Event::TaskGone(id, epoch, end));
                    }
                    self.places.get_mut(&id).unwrap().task = None;
                    self.drive(id, |node, now, dice| node.task_ended(now, end, dice));
                }
            }
            Event::Restart(id) => {
                if self.places[&id].node.is_none() {
                    self.start(id);
                }
            }
            Event::Heal => self.parted.clear(),
            Event::Trouble => self.strike(),
        }
    }

    fn strike(&mut self) {
        if !self.troubled || self.now >= self.climate.trouble {
            return;
        }
        let faults = self.climate.faults;
        if !faults.is_empty() {
            let fault = faults[self.dice.below(faults.len() as u64) as usize];
            let ids = self.ids();
            let id = ids[self.dice.below(ids.len() as u64) as usize];
            self.note(&format!("{fault:?} {id}"));
            match fault {
                Fault::Crash => {
                    self.crash(id);
                    let pause = if self.dice.one_in(2) { 50 } else { 6_000 };
                    let pause = self.dice.below(pause);
                    self.after(pause, Event::Restart(id));
                }
                Fault::Freeze => {
                    let until = self.now + self.dice.below(6_000);
                    let place = self.places.get_mut(&id).unwrap();
                    place.frozen_until = until;
                    place.stood_still = true;
                }
                Fault::Part => {
                    self.parted = ids.into_iter().filter(|_| self.dice.one_in(2)).collect();
                    let pause = self.dice.below(12_000);
                    self.after(pause, Event::Heal);
                }
                Fault::Resign => {
                    if self.frozen(id).is_none() {
                        self.drive(id, |node, now, dice| {
                            node.resign(now, EndReason::Resigned, dice);
                        });
                    }
                }
                Fault::TaskFails => {
                    self.end_task(id, 0, TaskEnd::Failed);
                }
            }
        }
        let pause = self.dice.below(5_000);
        self.after(pause, Event::Trouble);
    }

    fn start(&mut self, id: NodeId) {
        let now = self.local(id);
        let settings = GroupSettings::new(id, members(self.climate.members), timings()).unwrap();
        let mut settings = settings
            .with_guarantee(self.climate.guarantee)
            .with_preempt(self.climate.preempt);
        if let Some(fix) = self.climate.without {
            settings = settings.without(fix);
        }
        let started = Started {
            at: now,
            wall: UnixMillis::new(0),
        };
        let place = self.places.get_mut(&id).unwrap();
        place.life += 1;
        place.seen = None;
        place.node = Some(PeerCandidate::new(settings, place.durable, started));
        self.note(&format!("start {id}"));
        self.drive(id, |node, now, dice| node.campaign(now, dice));
    }

    /// The process is gone, and its task with it. Of what was on its way to the disk a part may have
    /// arrived.
    fn crash(&mut self, id: NodeId) {
        let arrived = self.dice.below(3);
        let place = self.places.get_mut(&id).unwrap();
        place.node = None;
        place.life += 1;
        place.task = None;
        place.frozen_until = 0;
        for _ in 0..arrived {
            if let Some(record) = place.unwritten.pop_front() {
                place.durable = record;
            }
        }
        place.unwritten.clear();
    }

    fn frozen(&self, id: NodeId) -> Option<u64> {
        Some(self.places[&id].frozen_until).filter(|&until| until > self.now)
    }

    fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.parted.contains(&from) != self.parted.contains(&to)
    }

    fn input(&mut self, id: NodeId, input: PeerInput) {
        self.drive(id, |node, now, dice| node.handle_message(now, input, dice));
    }

    fn drive(&mut self, id: NodeId, act: impl FnOnce(&mut PeerCandidate, Instant, &mut Dice)) {
        let now = self.local(id);
        let Some(node) = &mut self.places.get_mut(&id).unwrap().node else {
            return;
        };
        act(node, now, &mut self.dice);
        while let Some(output) = self
            .places
            .get_mut(&id)
            .unwrap()
            .node
            .as_mut()
            .unwrap()
            .poll_output()
        {
            self.obey(id, output);
        }
    }

    fn obey(&mut self, id: NodeId, output: Output<PeerEffect>) {
        let place = self.places.get_mut(&id).unwrap();
        let leader = place.node.as_ref().and_then(PeerCandidate::leader);
        place.seen = leader.map(|(leader, _)| leader);
        let life = place.life;
        match output {
            Output::Effect(PeerEffect::Send { to, message }) => {
                let repeated = self.troubled && self.dice.one_in(self.climate.loss);
                if !self.troubled || !self.dice.one_in(self.climate.loss) {
                    let delay = self.delay();
                    self.after(delay, Event::Deliver(id, to, message));
                }
                if repeated {
                    let delay = self.delay();
                    self.after(delay, Event::Deliver(id, to, message));
                }
            }
            Output::Effect(PeerEffect::Persist(record)) => {
                self.places
                    .get_mut(&id)
                    .unwrap()
                    .unwritten
                    .push_back(record);
                // In order, as one disk writes.
                let delay = if self.troubled && self.dice.one_in(20) {
                    1_000
                } else {
                    5
                };
                let last = self.queue.iter().rev().find_map(|(&(time, _), event)| {
                    matches!(event, Event::Written(of, l) if (*of, *l) == (id, life))
                        .then_some(time)
                });
                let at = (self.now + self.dice.below(delay)).max(last.unwrap_or(0));
                self.after(at - self.now, Event::Written(id, life));
            }
            Output::Effect(PeerEffect::Ask { node, round }) => {
                let up = self.places[&node].node.is_some() && !self.is_cut(id, node);
                let delay = if up { 10 } else { DETECTION };
                self.after(delay, Event::Answer(id, node, round, life));
            }
            Output::Term(TermEvent::Began(epoch)) => self.begin(id, epoch),
            Output::Term(TermEvent::Cancel(reason)) => {
                self.note(&format!("cancel {id}: {reason}"));
                let grace = timings().term().stop_grace().as_millis() as u64;
                let pause = self.dice.below(grace * 2);
                self.end_task(id, pause, TaskEnd::Returned);
            }
            Output::Term(TermEvent::Abort) => {
                // After a standstill what the task does in its allowance is for the epoch to fence.
                let allowance = timings().term().abort_allowance().as_millis() as u64;
                let place = self.places.get_mut(&id).unwrap();
                let pause = if place.stood_still {
                    0
                } else {
                    self.dice.below(allowance)
                };
                self.end_task(id, pause, TaskEnd::Aborted);
            }
            // After a standstill it is late for everything.
            Output::Term(TermEvent::Overrun) => {
                assert!(self.places[&id].stood_still, "{id} overruns")
            }
            Output::Term(TermEvent::Ended(..)) | Output::Term(TermEvent::Withdrawn) => {
                self.note(&format!("{output:?} {id}"));
                self.drive(id, |node, now, dice| node.campaign(now, dice));
            }
            Output::Term(TermEvent::LeaderSeen(_)) => {}
            Output::Term(TermEvent::AtRisk(_))
            | Output::Effect(PeerEffect::Watch(_))
            | Output::Effect(PeerEffect::Unwatch(_)) => {}
            Output::Term(TermEvent::Failed(why)) => panic!("{why:?}"),
        }
    }

    fn end_task(&mut self, id: NodeId, pause: u64, end: TaskEnd) {
        if let Some(epoch) = self.places[&id].task {
            self.after(pause, Event::TaskGone(id, epoch, end));
        }
    }

    fn delay(&mut self) -> u64 {
        if self.troubled && self.dice.one_in(10) {
            1 + self.dice.below(self.climate.delay)
        } else {
            1 + self.dice.below(10)
        }
    }

    fn begin(&mut self, id: NodeId, epoch: Epoch) {
        self.note(&format!("{id} leads, epoch {epoch}"));
        let now = self.now;
        let others: Vec<_> = self
            .places
            .iter()
            .filter(|(other, place)| **other != id && now >= place.frozen_until)
            .filter(|(_, place)| place.task.is_some())
            .map(|(other, _)| *other)
            .collect();
        if self.climate.guarantee == GroupGuarantee::Quorum {
            assert!(others.is_empty(), "{id} leads beside {others:?}");
            let last = self.epochs.last();
            assert!(last < Some(&epoch), "epoch {epoch} after {last:?}");
        }
        self.epochs.push(epoch);
        let place = self.places.get_mut(&id).unwrap();
        assert_eq!(place.task, None, "two terms at once on {id}");
        place.task = Some(epoch);
        place.stood_still = false;
        assert!(
            matches!(
                self.places[&id]
                    .node
                    .as_ref()
                    .unwrap()
                    .standing(self.local(id)),
                Standing::Leading { .. }
            ),
            "a term begins valid"
        );
    }
}

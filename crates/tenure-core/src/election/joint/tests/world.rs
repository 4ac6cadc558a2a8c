//! Candidates of all strategies beside each other: a store, peers, clocks that disagree, and ways that
//! delay, lose and are cut.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use super::*;
use crate::bully::PeerMessage;
use crate::detector::Verdict;
use crate::lease::candidate::Request;
use crate::lease::{self, Acquire, Change, LeaseDuration, Operation, Rejection, Rules};

const TICK: u64 = 10;

/// Which way a member is elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Lease,
    Both,
    Peers,
}

#[expect(clippy::large_enum_variant, reason = "a handful of them")]
enum Machine {
    Lease(LeaseCandidate),
    Both(Joint),
    Peers(PeerCandidate),
}

struct Place {
    by: By,
    machine: Option<Machine>,
    /// What is for an earlier life does not arrive.
    life: u64,
    record: HardState,
    wall: u64,
    task: Option<Epoch>,
    stops_at: Option<(u64, TaskEnd)>,
    /// Whether it was told to end.
    stopping: bool,
    reaches_store: bool,
    reaches_peers: bool,
}

enum Parcel {
    Peers(u32, u32, PeerMessage),
    Request(u32, u64, u64, Request),
    Answer(u32, u64, u64, Answer),
    /// What the asker's detector says of a member, in a round.
    Verdict(u32, u64, NodeId, u64),
}

/// The world. It fails by itself when two lead, or when an epoch is not above the last.
pub(super) struct World {
    pub(super) now: u64,
    pub(super) dice: Dice,
    places: BTreeMap<u32, Place>,
    guarantee: GroupGuarantee,
    members: u32,
    lease: lease::Record,
    store_wall: u64,
    parcels: Vec<(u64, Parcel)>,
    /// One message or request in so many is lost.
    pub(super) loss: u64,
    /// By which ways the leaders were elected, and their epochs.
    pub(super) terms: Vec<(By, Epoch)>,
    pub(super) log: Vec<String>,
}

impl World {
    /// Members whose wall clocks, like the store's, are anywhere within two hours.
    pub(super) fn new(members: u32, by: By, seed: u64) -> Self {
        Self::with(GroupGuarantee::Quorum, members, by, seed)
    }

    /// The same, with this guarantee among the peers.
    pub(super) fn with(guarantee: GroupGuarantee, members: u32, by: By, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let hours = 7_200_000;
        let mut world = Self {
            now: 0,
            places: BTreeMap::new(),
            guarantee,
            members,
            lease: lease::Record::default(),
            store_wall: 1_000_000_000 + dice.below(hours),
            parcels: Vec::new(),
            loss: 20,
            terms: Vec::new(),
            log: vec![format!("seed {seed}")],
            dice,
        };
        for id in 1..=members {
            let wall = 1_000_000_000 + world.dice.below(hours);
            let place = Place {
                by,
                machine: None,
                life: 0,
                record: HardState::default(),
                wall,
                task: None,
                stops_at: None,
                stopping: false,
                reaches_store: true,
                reaches_peers: true,
            };
            world.places.insert(id, place);
            world.start(id, by);
        }
        world
    }

    fn place(&mut self, id: u32) -> &mut Place {
        self.places.get_mut(&id).unwrap()
    }

    fn note(&mut self, line: &str) {
        self.log.push(format!("{:>7} {line}", self.now));
    }

    /// Starts a member, elected in this way. It knows what its disk knows.
    pub(super) fn start(&mut self, id: u32, by: By) {
        self.note(&format!("{id} starts, by {by:?}"));
        let (now, guarantee, count) = (self.now, self.guarantee, self.members);
        let place = self.place(id);
        place.life += 1;
        place.by = by;
        place.stopping = false;
        let wall = place.wall;
        let node = |record| node(id, count, guarantee, record, now, wall);
        place.machine = Some(match by {
            By::Lease => Machine::Lease(keeper()),
            By::Both => Machine::Both(Joint::new(keeper(), node(place.record))),
            By::Peers => Machine::Peers(node(place.record)),
        });
        self.drive(id, |machine, now, dice| machine.campaign(now, dice));
    }

    /// The process dies, and its task with it.
    pub(super) fn kill(&mut self, id: u32) {
        self.note(&format!("{id} dies"));
        let place = self.place(id);
        place.machine = None;
        place.task = None;
        place.stops_at = None;
    }

    /// The process is told to stop, and does.
    pub(super) fn stop(&mut self, id: u32) {
        self.note(&format!("{id} stops"));
        self.place(id).stopping = true;
        self.drive(id, |machine, now, dice| {
            machine.resign(now, EndReason::ShutDown, dice)
        });
        for _ in 0..500 {
            self.tick();
            let now = at(self.now);
            let machine = self.places[&id].machine.as_ref();
            if machine.is_none_or(|machine| machine.standing(now) == Standing::Idle) {
                break;
            }
        }
        self.run(200);
        self.kill(id);
    }

    pub(super) fn is_up(&self, id: u32) -> bool {
        self.places[&id].machine.is_some()
    }

    /// Cuts a member's ways, or mends them.
    pub(super) fn reach(&mut self, id: u32, store: bool, peers: bool) {
        self.note(&format!(
            "{id} reaches the store: {store}, its peers: {peers}"
        ));
        let place = self.place(id);
        (place.reaches_store, place.reaches_peers) = (store, peers);
    }

    pub(super) fn leader(&self) -> Option<u32> {
        let going = |(&id, place): (&u32, &Place)| place.task.is_some().then_some(id);
        self.places.iter().find_map(going)
    }

    pub(super) fn run(&mut self, time: u64) {
        for _ in 0..time / TICK {
            self.tick();
        }
    }

    /// Runs until somebody leads; fails if nobody does for so long.
    pub(super) fn until_led(&mut self, most: u64) -> u32 {
        for _ in 0..most / TICK {
            if let Some(leader) = self.leader() {
                return leader;
            }
            self.tick();
        }
        self.fail("nobody leads");
    }

    pub(super) fn fail(&self, why: &str) -> ! {
        let first = self.log.len().saturating_sub(60);
        panic!("{why}\n{}\n{}", self.log[0], self.log[first..].join("\n"));
    }

    fn tick(&mut self) {
        self.now += TICK;
        self.parcels.sort_by_key(|&(arrival, _)| arrival);
        while self
            .parcels
            .first()
            .is_some_and(|&(arrival, _)| arrival <= self.now)
        {
            let (_, parcel) = self.parcels.remove(0);
            self.deliver(parcel);
        }
        let ids: Vec<u32> = self.places.keys().copied().collect();
        for id in ids {
            if let Some((_, end)) = self.places[&id]
                .stops_at
                .filter(|&(stop, _)| stop <= self.now)
            {
                let place = self.place(id);
                (place.task, place.stops_at) = (None, None);
                self.drive(id, |machine, now, dice| machine.task_ended(now, end, dice));
            }
            self.drive(id, |machine, now, dice| machine.handle_timeout(now, dice));
        }
    }

    fn post(&mut self, parcel: Parcel) {
        if self.dice.one_in(self.loss) {
            return;
        }
        let delay = if self.dice.one_in(10) { 150 } else { 10 };
        let arrival = self.now + 1 + self.dice.below(delay);
        self.parcels.push((arrival, parcel));
    }

    fn deliver(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::Peers(from, to, message) => {
                let cut = !self.places[&from].reaches_peers || !self.places[&to].reaches_peers;
                if cut || self.places[&to].by == By::Lease {
                    return;
                }
                let from = NodeId(from);
                self.drive(to, |machine, now, dice| {
                    machine.hear(now, PeerInput::Message { from, message }, dice);
                });
            }
            Parcel::Verdict(asker, life, node, round) => {
                let place = &self.places[&node.0];
                let machine = place.machine.as_ref().filter(|_| place.reaches_peers);
                let stands = machine.and_then(|machine| machine.stands(at(self.now)));
                let verdict = match stands {
                    None => Verdict::Down,
                    Some(false) => Verdict::NonCandidate,
                    Some(true) => Verdict::Up,
                };
                if self.places[&asker].life == life {
                    let said = PeerInput::Answer {
                        node,
                        round,
                        verdict,
                    };
                    self.drive(asker, |machine, now, dice| machine.hear(now, said, dice));
                }
            }
            Parcel::Request(from, life, attempt, request) => {
                if !self.places[&from].reaches_store {
                    return;
                }
                let answer = self.serve(from, request);
                self.post(Parcel::Answer(from, life, attempt, answer));
            }
            Parcel::Answer(to, life, attempt, answer) => {
                let place = &self.places[&to];
                if place.life == life && place.reaches_store {
                    self.drive(to, |machine, now, dice| {
                        machine.answered(now, attempt, answer, dice)
                    });
                }
            }
        }
    }

    /// The store's part. It does not let anybody wait.
    fn serve(&mut self, from: u32, request: Request) -> Answer {
        let operation = match request {
            Request::Acquire {
                lease_id,
                min_epoch,
                ..
            } => Operation::Acquire(
                Acquire {
                    lease_id,
                    holder: from.to_string().parse().unwrap(),
                    duration: LeaseDuration::Fixed(timings().term().lease_duration()),
                    lock_delay: Duration::ZERO,
                    metadata: lease::Metadata::new(),
                    min_epoch,
                },
                UnixMillis::new(self.store_wall + self.now),
            ),
            Request::Renew(lease_id) => Operation::Renew(lease_id, None),
            Request::Release { lease_id, .. } => Operation::Release(lease_id),
            Request::HandOver {
                lease_id,
                to,
                within,
            } => Operation::HandOver {
                lease_id,
                to,
                within,
            },
        };
        match lease::apply(&mut self.lease, &operation, at(self.now), &Rules::NATIVE) {
            Ok(applied) => match applied.change {
                Change::Granted(epoch) | Change::Renewed(epoch) => Answer::Held(epoch),
                _ => Answer::Released,
            },
            Err(Rejection::Held { holder, epoch, .. }) => Answer::HeldByAnother {
                holder: Some(holder),
                epoch: Some(epoch),
            },
            Err(Rejection::Expired) => Answer::Expired,
            Err(Rejection::IdRetired) => Answer::IdRetired,
            Err(_) => Answer::Superseded,
        }
    }

    fn drive(&mut self, id: u32, act: impl FnOnce(&mut Machine, Instant, &mut Dice)) {
        let now = at(self.now);
        let Some(machine) = &mut self.places.get_mut(&id).unwrap().machine else {
            return;
        };
        act(machine, now, &mut self.dice);
        loop {
            let machine = self.places.get_mut(&id).unwrap().machine.as_mut();
            let Some(machine) = machine else { return };
            let Some(output) = machine.poll(now) else {
                break;
            };
            self.execute(id, output);
        }
    }

    fn execute(&mut self, id: u32, output: Output<JointEffect>) {
        let life = self.places[&id].life;
        match output {
            Output::Effect(JointEffect::Store(LeaseEffect::Send {
                attempt, request, ..
            })) => {
                self.post(Parcel::Request(id, life, attempt, request));
                // What has no answer by then has been lost.
                let answer = Answer::Unknown("no answer".into());
                let lost = Parcel::Answer(id, life, attempt, answer);
                self.parcels.push((self.now + 500, lost));
            }
            Output::Effect(JointEffect::Peers(PeerEffect::Send { to, message })) => {
                self.post(Parcel::Peers(id, to.0, message));
            }
            Output::Effect(JointEffect::Peers(PeerEffect::Persist(record))) => {
                self.place(id).record = record;
                let (now, dice) = (at(self.now), &mut self.dice);
                if let Some(machine) = &mut self.places.get_mut(&id).unwrap().machine {
                    machine.hear(now, PeerInput::Persisted, dice);
                }
            }
            Output::Effect(JointEffect::Peers(PeerEffect::Ask { node, round })) => {
                // Longer than a message lives, if it is down.
                let up = self.places[&node.0].machine.is_some();
                let verdict = Parcel::Verdict(id, life, node, round);
                let pause = if up { 20 } else { 500 };
                self.parcels.push((self.now + pause, verdict));
            }
            Output::Effect(_) | Output::Term(TermEvent::AtRisk(_) | TermEvent::LeaderSeen(_)) => {}
            Output::Term(TermEvent::Began(epoch)) => self.begin(id, epoch),
            Output::Term(TermEvent::Cancel(_)) => {
                let grace = timings().term().stop_grace().as_millis() as u64;
                self.stop_task(id, 2 * grace, TaskEnd::Returned);
            }
            Output::Term(TermEvent::Abort) => {
                let allowance = timings().term().abort_allowance().as_millis() as u64;
                self.stop_task(id, allowance - 2 * TICK, TaskEnd::Aborted);
            }
            Output::Term(event @ (TermEvent::Overrun | TermEvent::Failed(_))) => {
                panic!("{event:?}")
            }
            Output::Term(TermEvent::Ended(..) | TermEvent::Withdrawn) => {
                self.note(&format!("{id} has ended"));
                let (now, dice) = (at(self.now), &mut self.dice);
                let place = self.places.get_mut(&id).unwrap();
                if let Some(machine) = place.machine.as_mut().filter(|_| !place.stopping) {
                    machine.campaign(now, dice);
                }
            }
        }
    }

    fn stop_task(&mut self, id: u32, within: u64, end: TaskEnd) {
        let stop = self.now + self.dice.below(within);
        self.note(&format!("{id} is to stop"));
        self.place(id).stops_at = Some((stop, end));
    }

    fn begin(&mut self, id: u32, epoch: Epoch) {
        let by = self.places[&id].by;
        self.note(&format!("{id} leads by {by:?}, epoch {epoch}"));
        if let Some(other) = self.leader() {
            self.fail(&format!("{id} leads beside {other}"));
        }
        if let Some((_, last)) = self.terms.last().copied()
            && last >= epoch
        {
            self.fail(&format!("epoch {epoch} after {last}"));
        }
        self.terms.push((by, epoch));
        self.place(id).task = Some(epoch);
    }
}

macro_rules! each {
    ($self:expr, $machine:ident => $call:expr) => {
        match $self {
            Machine::Lease($machine) => $call,
            Machine::Both($machine) => $call,
            Machine::Peers($machine) => $call,
        }
    };
}

impl Machine {
    fn campaign(&mut self, now: Instant, dice: &mut Dice) {
        each!(self, machine => ElectionMachine::campaign(machine, now, dice));
    }

    fn resign(&mut self, now: Instant, reason: EndReason, dice: &mut Dice) {
        each!(self, machine => ElectionMachine::resign(machine, now, reason, dice));
    }

    fn task_ended(&mut self, now: Instant, end: TaskEnd, dice: &mut Dice) {
        each!(self, machine => ElectionMachine::task_ended(machine, now, end, dice));
    }

    fn handle_timeout(&mut self, now: Instant, dice: &mut Dice) {
        each!(self, machine => ElectionMachine::handle_timeout(machine, now, dice));
    }

    fn standing(&self, now: Instant) -> Standing {
        each!(self, machine => ElectionMachine::standing(machine, now))
    }

    fn hear(&mut self, now: Instant, input: PeerInput, dice: &mut Dice) {
        match self {
            Self::Lease(_) => {}
            Self::Both(both) => both.handle_message(now, JointMessage::Peers(input), dice),
            Self::Peers(node) => node.handle_message(now, input, dice),
        }
    }

    fn answered(&mut self, now: Instant, attempt: u64, answer: Answer, dice: &mut Dice) {
        match self {
            Self::Lease(keeper) => keeper.handle_message(now, (attempt, answer), dice),
            Self::Both(both) => {
                both.handle_message(now, JointMessage::Store(attempt, answer), dice)
            }
            Self::Peers(_) => {}
        }
    }

    /// Whether it stands for election among the peers; `None` for who is none of them.
    fn stands(&self, now: Instant) -> Option<bool> {
        match self {
            Self::Lease(_) => None,
            Self::Both(both) => Some(both.node().stands(now)),
            Self::Peers(node) => Some(node.stands(now)),
        }
    }

    fn poll(&mut self, now: Instant) -> Option<Output<JointEffect>> {
        match self {
            Self::Lease(keeper) => Some(match keeper.poll_output()? {
                Output::Effect(effect) => Output::Effect(JointEffect::Store(effect)),
                Output::Term(event) => Output::Term(event),
            }),
            Self::Peers(node) => Some(match node.poll_output()? {
                Output::Effect(effect) => Output::Effect(JointEffect::Peers(effect)),
                Output::Term(event) => Output::Term(event),
            }),
            Self::Both(both) => {
                let output = both.poll_output()?;
                if let Output::Term(TermEvent::Began(_)) = &output {
                    assert!(matches!(both.standing(now), Standing::Leading { .. }));
                }
                Some(output)
            }
        }
    }
}

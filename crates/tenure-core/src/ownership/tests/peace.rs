//! Progress (O6) and peace (O7): servers whose clocks differ by some percent, and a service that
//! answers in time, except during outages. At most one server accepts requests at a time (O3).

use alloc::vec::Vec;
use core::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::Instant;

/// The longest time of a call in either direction, in milliseconds: together less than a poll.
const DELAY: u64 = 490;

/// The step of the simulation, in milliseconds.
const STEP: u64 = 10;

struct World {
    now: u64,
    /// The tails in the order of their appends.
    chain: Vec<Tail>,
    servers: Vec<Server>,
    random: u64,
}

struct Server {
    machine: Ownership,
    /// The speed of its clock, in percent.
    rate: u64,
    is_alive: bool,
    is_cut: bool,
    call: Option<Call>,
}

struct Call {
    /// The tail that it replaces and the new one; `None` for a read.
    append: Option<(Option<Tail>, Tail)>,
    reaches_at: u64,
    answer: Option<(u64, Observation, bool)>,
    given_up_at: Instant,
}

impl Server {
    fn clock(&self, now: u64) -> Instant {
        at_millis(1_000 + now * self.rate / 100)
    }
}

impl World {
    fn new(rates: &[u64], seed: u64) -> Self {
        let server = |(id, &rate): (usize, &u64)| Server {
            machine: Ownership::new(timings(T), OwnerId(id as u128 + 1), at(1)),
            rate,
            is_alive: true,
            is_cut: false,
            call: None,
        };
        Self {
            now: 0,
            chain: Vec::new(),
            servers: rates.iter().enumerate().map(server).collect(),
            random: seed | 1,
        }
    }

    fn delay(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % (DELAY / STEP) * STEP
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis / STEP {
            for id in 0..self.servers.len() {
                if self.servers[id].is_alive {
                    self.step(id);
                }
            }
            let serving: Vec<usize> = (0..self.servers.len())
                .filter(|&id| self.serves(id))
                .collect();
            assert!(serving.len() <= 1, "{serving:?} accept at {} ms", self.now);
            self.now += STEP;
        }
    }

    fn serves(&self, id: usize) -> bool {
        let server = &self.servers[id];
        server.is_alive && server.machine.role(server.clock(self.now)) == OwnershipRole::Active
    }

    fn step(&mut self, id: usize) {
        let (reply, to_service) = (self.delay(), self.delay());
        let now = self.now;
        let newest = self.chain.last().copied();
        let server = &mut self.servers[id];
        let clock = server.clock(now);
        if let Some(call) = &mut server.call {
            if call.reaches_at == now && !server.is_cut {
                let is_applied = call.append.is_some_and(|(expected, _)| expected == newest);
                if let Some((_, tail)) = call.append.filter(|_| is_applied) {
                    self.chain.push(tail);
                }
                let found = newest.map_or(Found::Empty, Found::Tail);
                call.answer = Some((now + reply, observation(found), is_applied));
            }
            let arrived = call.answer.filter(|&(at, ..)| at <= now && !server.is_cut);
            if arrived.is_some() || call.given_up_at <= clock {
                let is_append = call.append.is_some();
                server.call = None;
                match (is_append, arrived) {
                    (false, Some((_, found, _))) => {
                        server.machine.handle_tail(clock, Look::Found(found));
                    }
                    (false, None) => server.machine.handle_tail(clock, Look::Failed),
                    (true, arrived) => {
                        let outcome = match arrived {
                            Some((.., true)) => AppendOutcome::Committed,
                            Some((_, found, false)) => AppendOutcome::Superseded(found),
                            None => AppendOutcome::Unknown,
                        };
                        let _ = server.machine.handle_appended(clock, outcome);
                    }
                }
            }
        }
        if server.machine.next_timeout().is_some_and(|at| at <= clock) {
            server.machine.handle_timeout(clock);
        }
        while let Some(output) = server.machine.poll_output() {
            let append = match output {
                OwnershipOutput::Look => None,
                OwnershipOutput::Append(tail) => Some((server.machine.known(), tail)),
                OwnershipOutput::Took { generation } => {
                    server.machine.handle_loaded(clock, generation);
                    continue;
                }
                _ => continue,
            };
            assert!(server.call.is_none(), "two calls at once");
            server.call = Some(Call {
                append,
                reaches_at: now + STEP + to_service,
                answer: None,
                given_up_at: clock + server.machine.timings().attempt(),
            });
        }
    }

    fn cut(&mut self, is_cut: bool) {
        for server in &mut self.servers {
            server.is_cut = is_cut;
        }
    }

    fn generation(&self) -> u64 {
        self.chain.last().map_or(0, |it| it.generation)
    }
}

fn rates() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(92..=108_u64, 3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// O7: pauses of the service, of any length, also between the application of an append and its
    /// answer.
    #[test]
    fn an_owner_survives_every_outage_of_the_service(
        rates in rates(),
        seed: u64,
        outages in prop::collection::vec((1..30_000_u64, 1..60_000_u64), 1..6),
    ) {
        let mut world = World::new(&rates, seed);
        world.run(5_000);
        prop_assert_eq!(world.generation(), 1);
        for (peace, outage) in outages {
            world.run(peace);
            world.cut(true);
            world.run(outage);
            world.cut(false);
        }
        world.run(10_000);
        prop_assert_eq!(world.generation(), 1);
        prop_assert_eq!((0..3).filter(|&id| world.serves(id)).count(), 1);
    }

    /// O6: after any faults, one server that reaches the service is enough.
    #[test]
    fn one_server_that_reaches_the_service_becomes_active(
        rates in rates(),
        seed: u64,
        faults in prop::collection::vec((0..3_usize, any::<bool>(), 1..20_000_u64), 0..8),
        survivor in 0..3_usize,
    ) {
        let mut world = World::new(&rates, seed);
        for (id, is_cut, millis) in faults {
            world.servers[id].is_cut = is_cut;
            world.run(millis);
        }
        for (id, server) in world.servers.iter_mut().enumerate() {
            server.is_alive = id == survivor;
            server.is_cut = false;
        }
        // T, the time to settle, and a poll, by the slowest clock.
        let limit = (T + T / 3 + T / 12) * 1_000 * 100 / 92;
        world.run(limit);
        prop_assert!(world.serves(survivor));
    }
}

/// Returns the generation after an outage that ends when the owner waits for an attempt that was
/// lost, and the followers are about to read.
fn generation_after_outages() -> u64 {
    let mut last = 1;
    for seed in 1..40 {
        let mut world = World::new(&[100, 100, 100], seed);
        world.run(5_000 + seed * 70);
        world.cut(true);
        world.run(30_000);
        world.cut(false);
        world.run(5_000);
        last = last.max(world.generation());
    }
    last
}

#[test]
fn the_time_to_settle_keeps_the_owner_after_an_outage() {
    assert_eq!(generation_after_outages(), 1);
}

#[test]
fn a_vacant_tail_shortens_a_hand_over_to_a_poll() {
    let mut world = World::new(&[100, 100, 100], 5);
    world.run(5_000);
    let owner = (0..3).find(|&id| world.serves(id)).unwrap();
    let began = world.now;
    // The server stops: its last call is the append of the vacant tail.
    world.servers[owner].machine.resign();
    while world.servers[owner].call.is_some() {
        world.run(STEP);
    }
    let clock = world.servers[owner].clock(world.now);
    let vacant = world.servers[owner].machine.vacate(clock).unwrap();
    world.chain.push(vacant);
    world.servers[owner].is_alive = false;
    while !(0..3).any(|id| world.serves(id)) {
        world.run(STEP);
    }
    let took = Duration::from_millis(world.now - began);
    assert!(took < Duration::from_secs(4), "{took:?}");
}

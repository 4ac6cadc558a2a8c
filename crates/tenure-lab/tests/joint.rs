//! A group changes its strategy while it runs, and candidates by both reach only one half.

use std::time::Duration;

use tenure_core::detector::DetectBy;
use tenure_core::{NodeId, Random};
use tenure_lab::contestant::{Algorithm, Cluster, Contestant, DetectorKind};
use tenure_lab::fault::{Fault, Target};
use tenure_lab::invariant::{self, Promises};
use tenure_lab::sim::{HistoryEventKind, Latency, Link, Rng, TaskStop, World, WorldConfig};

/// The time in milliseconds is enough for the lease of a leader that has crashed, several
/// elections, and the store's timeouts.
const LONG: u64 = 60_000;

const STORE: NodeId = NodeId(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Lease,
    Both,
    Peers,
}

/// A group in which each member may use another strategy.
struct Group {
    seed: u64,
    world: World,
    rng: Rng,
    members: u32,
    quorum: bool,
    /// The strategies of the members.
    by: Vec<By>,
    /// Whether each member reaches the store, and whether it reaches its peers.
    reaches: Vec<(bool, bool)>,
    /// The strategies by which leaders were elected.
    terms: Vec<By>,
    /// The number of events of the history that `terms` covers.
    read: usize,
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the seeds from 0. `TENURE_SEEDS` sets their number, and `TENURE_SEED` a single seed.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("TENURE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TENURE_SEEDS").unwrap_or(count),
    }
}

impl Group {
    /// Creates members with a lease of 3 s. Their wall clocks and that of the store differ by up to
    /// two hours. One message in twenty is lost, and one in ten is late.
    fn new(members: u32, by: By, seed: u64) -> Self {
        Self::with_quorum(true, members, by, seed)
    }

    fn with_quorum(quorum: bool, members: u32, by: By, seed: u64) -> Self {
        let name = if quorum { "both" } else { "both-no-quorum" };
        let mut contestant = Contestant::of_name(name).unwrap().with_lease(ms(3_000));
        contestant.peers.message_lifetime = Some(ms(200));
        let config = WorldConfig {
            task: TaskStop::Any,
            ..WorldConfig::default()
        };
        let cluster = Cluster::new(contestant, members);
        let mut group = Self {
            seed,
            world: World::new(Box::new(cluster), config, seed).with_trace(),
            rng: Rng::new(seed, 9),
            members,
            quorum,
            by: vec![by; members as usize + 1],
            reaches: vec![(true, true); members as usize + 1],
            terms: Vec::new(),
            read: 0,
        };
        group.set_link(50_000);
        for node in group.world.machines() {
            let hours = group.rng.below(7_200_000).cast_signed();
            group.inject(Fault::WallClock(Target::Node(node), hours));
        }
        group.world.start_after(STORE, Duration::ZERO);
        for id in 1..=members {
            group.start(id, by);
        }
        group
    }

    fn set_link(&mut self, loss: u32) {
        self.world.network.everywhere = Link {
            latency: Latency::Uniform(ms(1), ms(11)),
            loss,
            late: (100_000, ms(140)),
            ..Link::default()
        };
    }

    fn inject(&mut self, fault: Fault) {
        self.world.inject_after(Duration::ZERO, fault);
    }

    fn start(&mut self, id: u32, by: By) {
        let detector = DetectorKind::Of(DetectBy::Push);
        let quorum = self.quorum;
        let algorithm = match by {
            By::Lease => Algorithm::Lease,
            By::Both => Algorithm::Joint { detector, quorum },
            By::Peers => Algorithm::Bully { detector, quorum },
        };
        self.by[id as usize] = by;
        let target = Target::Node(NodeId(id));
        self.inject(Fault::Algorithm(target, algorithm));
        self.inject(Fault::Start(target));
        self.run(1);
    }

    fn kill(&mut self, id: u32) {
        self.inject(Fault::Crash(Target::Node(NodeId(id)), None));
        self.run(1);
    }

    /// Stops the process in order, and kills it if that takes too long.
    fn stop(&mut self, id: u32) {
        self.inject(Fault::Leave(Target::Node(NodeId(id)), None));
        for _ in 0..50 {
            self.run(100);
            if !self.is_up(id) {
                return;
            }
        }
        self.kill(id);
    }

    fn is_up(&self, id: u32) -> bool {
        let up = self.world.seen_leaders();
        up.iter().any(|(node, _)| *node == NodeId(id))
    }

    /// Cuts the links of a member, or restores them.
    fn reach(&mut self, id: u32, store: bool, peers: bool) {
        self.reaches[id as usize] = (store, peers);
        let network = &mut self.world.network;
        network.heal();
        for one in 1..=self.members {
            for other in 0..=self.members {
                let reaches = |id: u32| self.reaches[id as usize];
                let is_open = match other {
                    0 => reaches(one).0,
                    other => reaches(one).1 && reaches(other).1,
                };
                if !is_open {
                    network.cut(NodeId(one), NodeId(other));
                    network.cut(NodeId(other), NodeId(one));
                }
            }
        }
    }

    fn run(&mut self, millis: u64) {
        let now = self.world.now.since(tenure_lab::sim::Time::default());
        self.world.run_until(now + ms(millis));
        for event in &self.world.history[self.read..] {
            if let HistoryEventKind::TaskStarted(_) = event.kind {
                self.terms.push(self.by[event.node.0 as usize]);
            }
        }
        self.read = self.world.history.len();
    }

    fn leader(&self) -> Option<u32> {
        self.world.leaders().first().map(|node| node.0)
    }

    /// Runs until a member leads, and fails after `most` milliseconds without one.
    #[track_caller]
    fn until_led(&mut self, most: u64) -> u32 {
        for _ in 0..most / 10 {
            if let Some(leader) = self.leader() {
                return leader;
            }
            self.run(10);
        }
        self.fail("there is no leader");
    }

    #[track_caller]
    fn fail(&self, why: &str) -> ! {
        let trace = self.world.trace();
        let last = &trace[trace.len().saturating_sub(80)..];
        panic!("TENURE_SEED={}: {why}\n{}", self.seed, last.join("\n"));
    }

    /// Checks the invariants of the whole run.
    #[track_caller]
    fn check(&mut self) {
        self.world.finish();
        let promises = Promises {
            one_leader: true,
            epochs: true,
            one_opinion: false,
            steady: false,
            leads_within: None,
            settles_within: ms(LONG),
        };
        if let Err(violation) = invariant::check(&self.world.history, &promises) {
            self.fail(&violation.to_string());
        }
    }

    /// Restarts all members with this strategy, one after the other in a random order. Some of them
    /// are stopped, and some are killed. Between two restarts there is a leader.
    #[track_caller]
    fn roll(&mut self, by: By) {
        let mut order: Vec<u32> = (1..=self.members).collect();
        for last in (1..order.len()).rev() {
            let other = self.rng.below(last as u64 + 1) as usize;
            order.swap(last, other);
        }
        for id in order {
            if self.rng.below(3) == 0 {
                self.kill(id);
            } else {
                self.stop(id);
            }
            let pause = self.rng.below(2_000);
            self.run(pause);
            self.start(id, by);
            self.until_led(LONG);
            let pause = self.rng.below(8_000);
            self.run(pause);
        }
        self.until_led(LONG);
    }
}

#[test]
fn from_one_strategy_to_the_other_and_back_one_leads_at_a_time_and_epochs_increase() {
    let (mut terms, mut strategies) = (0, [0, 0, 0]);
    for seed in seeds(60) {
        let mut group = Group::new(3, By::Lease, seed);
        group.until_led(LONG);
        for by in [By::Both, By::Peers, By::Both, By::Lease] {
            group.roll(by);
        }
        group.check();
        terms += group.terms.len();
        for by in &group.terms {
            strategies[*by as usize] += 1;
        }
    }
    println!("{terms} terms; by lease, both and peers: {strategies:?}");
    assert!(strategies.iter().all(|it| *it > 0), "{strategies:?}");
}

#[test]
fn members_that_come_and_go_while_strategies_are_mixed_never_lead_together() {
    for seed in seeds(60) {
        let mut group = Group::new(3, By::Both, seed);
        let other = if seed % 2 == 0 { By::Lease } else { By::Peers };
        for _ in 0..30 {
            let id = 1 + group.rng.below(3) as u32;
            if group.is_up(id) {
                match group.rng.below(4) {
                    0 => group.kill(id),
                    1 => group.stop(id),
                    _ => {
                        let bits = group.rng.next_u64();
                        group.reach(id, bits & 1 == 0, bits & 2 == 0);
                    }
                }
            } else {
                let by = [By::Both, other][group.rng.below(2) as usize];
                group.start(id, by);
            }
            let pause = group.rng.below(6_000);
            group.run(pause);
        }
        // A leader is elected after all faults have ended.
        for id in 1..=3 {
            group.reach(id, true, true);
            if group.is_up(id) {
                group.kill(id);
            }
            group.start(id, By::Both);
        }
        group.until_led(LONG);
        group.check();
    }
}

#[test]
fn the_only_member_that_reaches_store_and_peers_leads() {
    for seed in seeds(20) {
        let mut group = Group::new(3, By::Both, seed);
        // The best member reaches only its peers, and the second one only the store.
        group.reach(1, false, true);
        group.reach(2, true, false);
        let leader = group.until_led(LONG);
        if leader != 3 {
            group.fail("a member that reaches only one half leads");
        }
        group.check();
    }
}

#[test]
fn without_a_store_candidates_among_peers_lead() {
    for seed in seeds(20) {
        let mut group = Group::new(3, By::Both, seed);
        for id in 1..=3 {
            group.reach(id, false, true);
        }
        group.run(5_000);
        group.kill(3);
        group.start(3, By::Peers);
        assert_eq!(group.until_led(LONG), 3);
        group.check();
    }
}

#[test]
fn without_a_majority_candidates_by_lease_lead() {
    for seed in seeds(20) {
        let mut group = Group::new(3, By::Lease, seed);
        group.set_link(0);
        group.until_led(LONG);
        // The first of the three members that changes has no majority, and does not disturb the
        // others.
        group.stop(1);
        group.start(1, By::Both);
        let leader = group.until_led(LONG);
        let terms = group.terms.len();
        group.run(30_000);
        assert_eq!((group.leader(), group.terms.len()), (Some(leader), terms));
        group.check();
    }
}

#[test]
fn two_members_without_a_quorum_change_beside_a_lease_and_epochs_are_the_stores() {
    for seed in seeds(60) {
        let mut group = Group::with_quorum(false, 2, By::Lease, seed);
        for by in [By::Both, By::Lease] {
            group.roll(by);
        }
        group.roll(By::Both);
        group.kill(1);
        assert_eq!(group.until_led(LONG), 2);
        // Without the store, the last member does not lead.
        group.reach(2, false, true);
        group.run(20_000);
        assert_eq!(group.leader(), None);
        group.reach(2, true, true);
        group.until_led(LONG);
        group.check();
    }
}

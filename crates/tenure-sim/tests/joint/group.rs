//! A group in which each member may use another strategy.

use std::time::Duration;

use tenure_core::NodeId;
use tenure_sim::contestant::{Cluster, Contestant};
use tenure_sim::invariant::{self, Promises, Violation};
use tenure_sim::sim::{
    Fault, HistoryEventKind, Latency, Link, Rng, Target, TaskStop, World, WorldConfig,
};

/// The time in milliseconds is enough for the lease of a leader that has crashed, several
/// elections, and the store's timeouts.
pub(super) const LONG: u64 = 60_000;

const STORE: NodeId = NodeId(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Lease,
    Both,
    Peers,
    /// With a fallback that elects no leader without the store.
    StoreRequired,
    /// With a fallback.
    Fallback,
}

/// A group in which each member may use another strategy.
pub(super) struct Group {
    seed: u64,
    pub(super) world: World,
    pub(super) rng: Rng,
    members: u32,
    quorum: bool,
    /// With a fallback: the number of members beside the store.
    k: usize,
    /// The strategies of the members.
    by: Vec<By>,
    /// Whether each member reaches the store, and whether it reaches its peers.
    reaches: Vec<(bool, bool)>,
    /// The strategies by which leaders were elected.
    pub(super) terms: Vec<By>,
    /// The number of events of the history that `terms` covers.
    read: usize,
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the seeds from 0. `TENURE_SEEDS` sets their number, and `TENURE_SEED` a single seed.
pub(super) fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("TENURE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TENURE_SEEDS").unwrap_or(count),
    }
}

impl Group {
    /// Creates members with a lease of 3 s. Their wall clocks and that of the store differ by up to
    /// two hours. One message in twenty is lost, and one in ten is late.
    pub(super) fn new(members: u32, by: By, seed: u64) -> Self {
        Self::create((true, 1), members, by, seed)
    }

    /// The same, with this number of members beside the store in a fallback.
    pub(super) fn with_k(k: usize, members: u32, by: By, seed: u64) -> Self {
        Self::create((true, k), members, by, seed)
    }

    fn create((quorum, k): (bool, usize), members: u32, by: By, seed: u64) -> Self {
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
            k,
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

    pub(super) fn set_link(&mut self, loss: u32) {
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

    pub(super) fn start(&mut self, id: u32, by: By) {
        let guard = if self.quorum { "" } else { "-no-quorum" };
        let algorithm = match by {
            By::Lease => "lease".into(),
            By::Both => format!("both{guard}"),
            By::Peers => format!("bully{guard}"),
            By::Fallback => format!("fallback-k{}", self.k),
            By::StoreRequired => format!("fallback-k{}-store-required", self.k),
        };
        self.by[id as usize] = by;
        let target = Target::Node(NodeId(id));
        self.inject(Fault::Algorithm(target, algorithm));
        self.inject(Fault::Start(target));
        self.run(1);
    }

    pub(super) fn kill(&mut self, id: u32) {
        self.inject(Fault::Crash(Target::Node(NodeId(id)), None));
        self.run(1);
    }

    /// Stops the process in order, and kills it if that takes too long.
    pub(super) fn stop(&mut self, id: u32) {
        self.inject(Fault::Leave(Target::Node(NodeId(id)), None));
        for _ in 0..50 {
            self.run(100);
            if !self.is_up(id) {
                return;
            }
        }
        self.kill(id);
    }

    pub(super) fn is_up(&self, id: u32) -> bool {
        let up = self.world.seen_leaders();
        up.iter().any(|(node, _)| *node == NodeId(id))
    }

    /// Cuts the links of a member, or restores them.
    pub(super) fn reach(&mut self, id: u32, store: bool, peers: bool) {
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

    pub(super) fn run(&mut self, millis: u64) {
        let now = self.world.now.since(tenure_sim::sim::Time::default());
        self.world.run_until(now + ms(millis));
        for event in &self.world.history[self.read..] {
            if let HistoryEventKind::TaskStarted(_) = event.kind {
                self.terms.push(self.by[event.node.0 as usize]);
            }
        }
        self.read = self.world.history.len();
    }

    pub(super) fn leader(&self) -> Option<u32> {
        self.world.leaders().first().map(|node| node.0)
    }

    /// Runs until a member leads, and fails after `most` milliseconds without one.
    #[track_caller]
    pub(super) fn until_led(&mut self, most: u64) -> u32 {
        for _ in 0..most / 10 {
            if let Some(leader) = self.leader() {
                return leader;
            }
            self.run(10);
        }
        self.fail("there is no leader");
    }

    #[track_caller]
    pub(super) fn fail(&self, why: &str) -> ! {
        let trace = self.world.trace();
        let last = &trace[trace.len().saturating_sub(80)..];
        panic!("TENURE_SEED={}: {why}\n{}", self.seed, last.join("\n"));
    }

    /// Checks the invariants of the whole run.
    #[track_caller]
    pub(super) fn check(&mut self) {
        if let Some(violation) = self.violation() {
            self.fail(&violation.to_string());
        }
    }

    /// Returns the first violation of an invariant in the whole run.
    pub(super) fn violation(&mut self) -> Option<Violation> {
        self.world.finish();
        let promises = Promises {
            one_leader: true,
            epochs: true,
            one_opinion: false,
            steady: false,
            leads_within: None,
            settles_within: ms(LONG),
        };
        invariant::check(&self.world.history, &promises).err()
    }

    /// Restarts all members with this strategy, one after the other in a random order. Some of them
    /// are stopped, and some are killed. Between two restarts there is a leader.
    #[track_caller]
    pub(super) fn roll(&mut self, by: By) {
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

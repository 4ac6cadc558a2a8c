//! One run of one contestant with one seed, under random faults or a fault script.

use std::time::Duration;

use super::FaultScript;
use super::random::random_faults;
use super::storm::storm_faults;
use crate::contestant::{Cluster, Contestant};
use crate::invariant::{self, Promises, Violation};
use crate::sim::{Fault, Target, TaskStop, World, WorldConfig};

/// A contestant, and the faults that it must tolerate.
#[derive(Clone, Debug)]
pub struct CheckCase {
    /// The contestant.
    pub contestant: Contestant,
    /// The number of hosts that compete.
    pub nodes: u32,
    /// The duration of a run in virtual time.
    pub lasts: Duration,
    /// Whether random faults are severe. The default is yes for contestants that guarantee one
    /// leader at a time under such faults.
    pub severe: bool,
    /// Whether a better member replaces a working leader.
    pub preempt: bool,
    /// Whether the random faults are a storm: faults of the store and of the members, and times in
    /// which nothing changes and a connected quorum must elect a leader.
    pub storm: bool,
    /// The time that tasks take to stop.
    pub task: TaskStop,
    /// Whether all wall clocks are at zero, so that epochs can increase only from the state that
    /// hosts remember.
    pub no_wall_clock: bool,
    /// The fault script. Without one the faults are random.
    pub script: Option<&'static FaultScript>,
}

/// The result of one run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The first violation of an invariant.
    pub violation: Option<Violation>,
    /// The number of messages.
    pub messages: u64,
    /// The number of terms.
    pub terms: u64,
}

/// The largest deviation of a clock's rate, in millionths: one percent. A lease tolerates five
/// percent.
pub(super) const DRIFT: u64 = 10_000;

/// In milliseconds. A wall clock that is set back by this time shows zero.
const LONG_AGO: i64 = 1_000_000_000_000_000;

/// The largest number of messages in a run: ten times the number that five members need under the
/// worst random faults.
const MOST_MESSAGES: u64 = 1_000_000;

impl CheckCase {
    /// Creates a case of ten minutes on five hosts. The last two minutes have no faults, so that
    /// the run settles. The lease is short, so that there are many terms in that time.
    #[must_use]
    pub fn new(contestant: Contestant) -> Self {
        Self {
            severe: contestant.promises_one_leader(),
            preempt: false,
            storm: false,
            task: TaskStop::Any,
            no_wall_clock: false,
            contestant: contestant.with_lease(Duration::from_secs(6)),
            nodes: 5,
            lasts: Duration::from_secs(600),
            script: None,
        }
    }

    /// Creates the case of this fault script, with the contestant of the script.
    ///
    /// # Panics
    ///
    /// If its contestant does not exist.
    #[must_use]
    pub fn on(script: &'static FaultScript) -> Self {
        let contestant = Contestant::of_name(script.contestant)
            .expect("the script names a contestant that exists");
        Self::on_another(script, contestant)
    }

    /// Creates the case of this fault script with another contestant than that of the script.
    #[must_use]
    pub fn on_another(script: &'static FaultScript, contestant: Contestant) -> Self {
        let case = Self::new(contestant);
        let mut contestant = case.contestant;
        contestant.peers.message_lifetime = script.lifetime;
        let settling = Self::settling(&contestant);
        Self {
            contestant,
            nodes: script.nodes,
            lasts: script.faults_end + settling + Duration::from_secs(10),
            severe: script.severe,
            task: script.task,
            script: Some(script),
            ..case
        }
    }

    /// Returns the name in lists: the name of the script or, without one, of the contestant.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.script {
            Some(script) => script.name,
            None => &self.contestant.name,
        }
    }

    /// Returns the command that replays this seed.
    #[must_use]
    pub fn command(&self, seed: u64) -> String {
        let next = seed + 1;
        let mut command = format!("tenure-lab compare check --seeds {seed}..{next}");
        match self.script {
            Some(script) => {
                command += &format!(" --script {}", script.name);
                if self.contestant.name != script.contestant {
                    command += &format!(" --contestant {}", self.contestant.name);
                }
            }
            None => {
                let (name, nodes) = (&self.contestant.name, self.nodes);
                command += &format!(" --contestant {name} --members {nodes}");
                if self.storm {
                    command += " --storm";
                }
            }
        }
        command + " --trace"
    }

    /// Returns the longest delay of a message in a storm.
    pub(super) fn longest_delay(&self) -> Duration {
        self.contestant.term.renew_interval()
    }

    /// Returns the longest time without a leader in a storm while a quorum is connected and nothing
    /// changes: the bound that the library prints, by a slow clock. When the last fault begins,
    /// delayed messages may be under way, and a candidate whose task has failed may be in its
    /// cool-down.
    pub(super) fn leads_within(&self) -> Duration {
        let cluster = Cluster::new(self.contestant.clone(), self.nodes);
        let bound = cluster.worst_without_leader();
        bound + bound / 50 + self.longest_delay() + self.contestant.term.cool_down()
    }

    /// Returns whether the faults are those of the model of the papers.
    pub(super) fn has_model_of_papers(&self) -> bool {
        self.contestant.has_model_of_papers()
            && !self.severe
            && !self.storm
            && self.script.is_none()
    }

    fn settling(contestant: &Contestant) -> Duration {
        contestant.term.lease_duration() * 8
    }

    /// With preemption, the best member takes over in several steps, each after a hold-down.
    fn takeovers(&self) -> Duration {
        let hold_down = self.contestant.peers.hold_down.unwrap_or_default();
        if self.preempt {
            hold_down * self.nodes
        } else {
            Duration::ZERO
        }
    }

    /// Returns the time from the beginning to the end of the faults.
    pub(super) fn trouble(&self) -> Duration {
        self.script
            .map_or(self.lasts * 4 / 5, |script| script.faults_end)
    }

    fn promises(&self) -> Promises {
        let rests = self.contestant.has_epochs() && !self.severe && !self.preempt;
        Promises {
            // Without a quorum, one leader at a time depends on mild faults, and a better member
            // that takes over does not wait for the task of its predecessor.
            one_leader: self.contestant.promises_one_leader() || rests,
            // With a quorum, a follower may learn of its leader late. Under random faults some
            // members are in their cool-down after a term. A worse member then leads, although
            // these members may still follow an earlier leader.
            // The papers judge their algorithms by this property, under every fault.
            one_opinion: self.contestant.has_model_of_papers()
                || rests && !self.contestant.promises_one_leader() && self.script.is_some(),
            steady: self.script.is_some_and(|script| script.steady),
            // Without a quorum, it is possible that no running member knows the last epoch.
            epochs: self.contestant.promises_one_leader(),
            leads_within: self.storm.then(|| self.leads_within()),
            settles_within: Self::settling(&self.contestant) + self.takeovers(),
        }
    }

    fn world(&self, seed: u64) -> World {
        let contestant = Contestant {
            preempt: self.preempt,
            ..self.contestant.clone()
        };
        let cluster = Cluster::new(contestant, self.nodes);
        let delay = cluster.message_lifetime() / 2;
        let config = WorldConfig {
            task: self.task,
            drift: DRIFT,
            most_messages: MOST_MESSAGES,
            watches_quorums: self.storm,
            ..WorldConfig::default()
        };
        let mut world = World::new(Box::new(cluster), config, seed);
        world.network.in_order = self.has_model_of_papers();
        let late = self.script.map_or(&[][..], |script| script.starts_later);
        for node in world.machines() {
            // In a script all hosts start at once, so that the first leader is known.
            if self.no_wall_clock {
                let fault = Fault::WallClock(Target::Node(node), -LONG_AGO);
                world.inject_after(Duration::ZERO, fault);
            }
            let apart = Duration::from_millis(if self.script.is_some() { 0 } else { 200 });
            let pause = apart * node.0;
            if !late.contains(&node.0) {
                world.start_after(node, pause);
            }
        }
        let faults = match self.script {
            Some(script) => script.faults(seed),
            None if self.storm => storm_faults(self, seed),
            None => random_faults(self, delay, seed),
        };
        for (at, fault) in faults {
            world.inject_after(at, fault);
        }
        world.end_faults_after(self.trouble());
        world
    }
}

/// Runs one seed.
#[must_use]
pub fn run(case: &CheckCase, seed: u64) -> RunOutcome {
    let mut world = case.world(seed);
    world.run_until(case.lasts);
    world.finish();
    let history = &world.history;
    let terms = history
        .iter()
        .filter(|event| matches!(event.kind, crate::sim::HistoryEventKind::TaskStarted(_)));
    RunOutcome {
        violation: invariant::check(history, &case.promises()).err(),
        messages: world.traffic.messages,
        terms: terms.count() as u64,
    }
}

/// Runs one seed and records a line for each event.
#[must_use]
pub fn trace(case: &CheckCase, seed: u64) -> (Vec<String>, Option<Violation>) {
    let mut world = case.world(seed).with_trace();
    world.run_until(case.lasts);
    world.finish();
    let violation = invariant::check(&world.history, &case.promises()).err();
    (world.trace().to_vec(), violation)
}

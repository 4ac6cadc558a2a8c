//! The comparison of all contestants in all scenarios.

use std::ops::Range;
use std::time::Duration;

use tenure_sim::contestant::{Cluster, Contestant};
use tenure_sim::map_parallel;
use tenure_sim::scenario::{LASTS, SETTLED, Scenario};
use tenure_sim::sim::{Fault, HistoryEventKind, Rng, Time, Traffic, World, WorldConfig};

use super::{Figures, Measurement, figures};

/// The number of members or candidates.
pub const NODES: u32 = 5;

/// The number of the random stream that shifts the faults of a scenario.
pub(super) const PHASE: u64 = 4;

/// The largest random delay of faults. Renewals and heartbeats have intervals, and the phase of a
/// fault within them matters.
const LATER: Duration = Duration::from_secs(10);

/// The time at rest, when all hosts have settled and before the first fault. Its messages are the
/// cost at rest.
pub const REST: Range<Duration> = Duration::from_secs(30)..SETTLED;

/// The result of one run.
#[derive(Clone, Debug, Default)]
pub struct RunResult {
    /// The figures.
    pub figures: Figures,
    /// All messages.
    pub traffic: Traffic,
    /// The messages of each election.
    pub elections: Vec<Traffic>,
    /// The messages at rest.
    pub rest: Traffic,
    /// Whether the run ended because of too many messages.
    pub floods: bool,
}

/// The largest number of messages in a run, twenty times that of a normal run. With the textbook
/// algorithm, messages sometimes only cause more messages, since each lost answer starts another
/// election.
pub(super) const MOST_MESSAGES: u64 = 200_000;

/// A comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The contestants.
    pub contestants: Vec<Contestant>,
    /// The scenarios.
    pub scenarios: Vec<Scenario>,
    /// The seeds of each pair of a contestant and a scenario.
    pub seeds: Range<u64>,
}

impl Comparison {
    /// Returns the number of runs.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.pairs().len() as u64 * (self.seeds.end - self.seeds.start)
    }

    pub(crate) fn pairs(&self) -> Vec<(&Contestant, &Scenario)> {
        let pairs = self.scenarios.iter().flat_map(|scenario| {
            let all = self.contestants.iter();
            let fit = all.filter(|it| !scenario.needs_store() || it.algorithm.uses_store());
            fit.map(move |contestant| (contestant, scenario))
        });
        pairs.collect()
    }
}

/// Runs a comparison on all processors, and calls `done` after each run. The result is ordered by
/// scenario.
pub fn compare(comparison: &Comparison, done: impl Fn() + Sync) -> Vec<Measurement> {
    map_parallel(comparison.pairs(), |(contestant, scenario)| {
        let one = |seed| {
            let ran = RunResult::of(&run_scenario(contestant, scenario, NODES, seed));
            done();
            ran
        };
        let runs: Vec<_> = comparison.seeds.clone().map(one).collect();
        let minutes = scenario.lasts.as_secs_f64() / 60.0;
        let row = Measurement::of(&contestant.name, scenario.name, minutes, &runs);
        row.with_settings(contestant)
    })
}

impl RunResult {
    /// Returns the longest time without a leader, in seconds. A run that ended because of too many
    /// messages did not recover, so its time is infinite.
    pub(super) fn longest_without(&self) -> f64 {
        if self.floods {
            f64::INFINITY
        } else {
            self.figures.longest_without.as_secs_f64()
        }
    }

    pub(super) fn led_at_end(&self) -> bool {
        self.figures.led_at_end && !self.floods
    }

    pub(super) fn of(world: &World) -> Self {
        let (figures, traffic_log) = (figures(&world.history), &world.traffic_log);
        let of = |&(from, until): &(Time, Time)| traffic_log.between(from, until);
        Self {
            elections: figures.elections.iter().map(of).collect(),
            rest: traffic_log.between(Time::after(REST.start), Time::after(REST.end)),
            floods: (world.history.iter()).any(|it| it.kind == HistoryEventKind::MessageFlood),
            traffic: world.traffic,
            figures,
        }
    }
}

/// Completes one run.
pub(crate) fn run_scenario(
    contestant: &Contestant,
    scenario: &Scenario,
    nodes: u32,
    seed: u64,
) -> World {
    let longer = scenario.lasts.as_secs().div_ceil(LASTS.as_secs());
    let mut world = new_world(contestant, scenario, nodes, seed, MOST_MESSAGES * longer);
    world.run_until(scenario.lasts);
    world.finish();
    world
}

/// Creates a world with the faults of the scenario. Its run ends early after `most_messages`.
pub(crate) fn new_world(
    contestant: &Contestant,
    scenario: &Scenario,
    nodes: u32,
    seed: u64,
    most_messages: u64,
) -> World {
    let later = Rng::new(seed, PHASE).between(Duration::ZERO, LATER);
    let faults = scenario.faults_of(nodes, seed).into_iter();
    let faults = faults.map(|(at, fault)| (SETTLED + later + at, fault));
    world_with_faults(contestant, faults, nodes, seed, most_messages)
}

/// Creates a world with these faults at these times.
pub(super) fn world_with_faults(
    contestant: &Contestant,
    faults: impl IntoIterator<Item = (Duration, Fault)>,
    nodes: u32,
    seed: u64,
    most_messages: u64,
) -> World {
    let cluster = Cluster::new(contestant.clone(), nodes);
    let config = WorldConfig {
        count_bytes: true,
        drift: 50,
        most_messages,
        ..WorldConfig::default()
    };
    let mut world = World::new(Box::new(cluster), config, seed);
    // All hosts start at once: with staggered starts the first ones would hold their own election,
    // which the published algorithm does not survive.
    for node in world.machines() {
        world.start_after(node, Duration::ZERO);
    }
    for (at, fault) in faults {
        world.inject_after(at, fault);
    }
    world
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Followers watch their leader, so the interval determines the number of heartbeats.
    #[test]
    fn the_simulation_uses_the_settings_of_the_detector() {
        let at_rest = |interval| {
            let mut contestant = Contestant::of_name("bully").expect("a contestant");
            contestant.detection.interval = Some(Duration::from_millis(interval));
            let comparison = Comparison {
                contestants: vec![contestant],
                scenarios: vec![Scenario::of_name("kill-leader").expect("a scenario")],
                seeds: 0..2,
            };
            let rows = compare(&comparison, || {});
            assert!(rows[0].messages_per_election > 0.0);
            rows[0].messages_at_rest
        };
        let fewer = at_rest(300) - at_rest(600);
        // Four followers cause 800 heartbeats a minute, or 400 with the longer interval, and fewer
        // renewals of subscriptions.
        assert!((350.0..420.0).contains(&fewer), "{fewer}");
    }
}

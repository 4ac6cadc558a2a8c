//! The data of a report page.

use std::ops::Range;
use std::time::Duration;

use tenure_sim::contestant::Contestant;
use tenure_sim::map_parallel;
use tenure_sim::scenario::{self, LASTS, SETTLED, Scenario};
use tenure_sim::sim::{Fault, Target};

use super::Timeline;
use crate::measure::{
    Comparison, Measurement, NODES, TimingComparison, TimingPoint, new_world, run_scenario,
};
use crate::paper::{self, Point};

/// The numbers of members for which messages are counted.
const SIZES: &[u32] = &[3, 5, 9, 15, 25];

/// The largest number of messages in a counted run: four times that of the algorithm and group with
/// the most messages. In a run with more, messages only cause more messages, and the run is not
/// counted.
const MOST_MESSAGES: u64 = 2_000_000;

/// The data of a page.
#[derive(Clone, Debug)]
pub struct Report {
    /// The contestants.
    pub contestants: Vec<String>,
    /// The scenarios.
    pub scenarios: Vec<Scenario>,
    /// The setting.
    pub setting: Setting,
    /// The measurements.
    pub rows: Vec<Measurement>,
    /// The lease durations of the contestants that have epochs, by name. Empty for real processes.
    pub leases: Vec<(String, Duration)>,
    /// The messages of each contestant by group size, in the order of the contestants, without the
    /// runs that have too many messages. Empty for real processes.
    pub growth: Vec<Vec<Growth>>,
    /// The contestants over their detection times, in the order of the contestants: the measurement
    /// of [`Report::timing_comparison`]. Without it the page has no such section.
    pub timing: Vec<TimingPoint>,
    /// The claims of the papers, and the measurements. Empty for real processes.
    pub papers: Vec<Point>,
    /// The timeline of one run of each row, in the order of the rows.
    pub timelines: Vec<Timeline>,
}

/// The setting of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// In simulated time, with a run for each of these seeds.
    Simulated(Range<u64>),
    /// With real processes.
    Live {
        /// The number of candidates.
        candidates: u32,
        /// The number of runs of each contestant in each scenario.
        runs: u32,
        /// The scale of the simulation's times, with the longest lease.
        scale: f64,
    },
}

/// The messages of a group of this size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// The number of members or candidates.
    pub nodes: u32,
    /// Messages in a minute without a fault.
    pub at_rest: f64,
    /// Election messages in the first minute.
    pub start: u64,
    /// Election messages in the minute after the leader was killed.
    pub failover: u64,
}

impl Report {
    /// Returns the number of runs of [`Report::new`].
    #[must_use]
    pub fn runs(comparison: &Comparison) -> u64 {
        let growth = comparison.contestants.len() * SIZES.len();
        (comparison.pairs().len() + growth) as u64
    }

    /// Creates the report. Makes the additional measurements with the first seed, and calls `done`
    /// after each run.
    #[must_use]
    pub fn new(comparison: &Comparison, rows: Vec<Measurement>, done: impl Fn() + Sync) -> Self {
        let seed = comparison.seeds.start;
        let sizes = comparison.contestants.iter().flat_map(|contestant| {
            let sizes = SIZES.iter();
            sizes.map(move |&nodes| (contestant, nodes))
        });
        let counted = map_parallel(sizes, |(contestant, nodes)| {
            let counted = count(contestant, nodes, seed);
            done();
            counted
        });
        let growth = |of: &[Option<Growth>]| of.iter().flatten().copied().collect();
        let timelines = map_parallel(comparison.pairs(), |(contestant, scenario)| {
            let world = run_scenario(contestant, scenario, NODES, seed);
            done();
            Timeline::of(&world.history)
        });
        Self {
            contestants: comparison
                .contestants
                .iter()
                .map(|it| it.name.clone())
                .collect(),
            scenarios: comparison.scenarios.clone(),
            leases: comparison
                .contestants
                .iter()
                .filter(|it| it.has_epochs())
                .map(|it| (it.name.clone(), it.term.lease_duration()))
                .collect(),
            setting: Setting::Simulated(comparison.seeds.clone()),
            growth: counted.chunks(SIZES.len()).map(growth).collect(),
            timing: Vec::new(),
            papers: paper::measure(),
            rows,
            timelines,
        }
    }

    /// Returns the comparison over the detection times, with fewer seeds: each has many runs.
    #[must_use]
    pub fn timing_comparison(comparison: &Comparison) -> TimingComparison {
        let seeds = &comparison.seeds;
        TimingComparison {
            contestants: comparison.contestants.clone(),
            seeds: seeds.start..seeds.end.min(seeds.start + 10),
            ..TimingComparison::default()
        }
    }

    /// Creates the report of real processes, with a timeline of one run for each row.
    #[must_use]
    pub fn live(
        contestants: Vec<String>,
        scenarios: Vec<Scenario>,
        setting: Setting,
        measured: Vec<(Measurement, Timeline)>,
    ) -> Self {
        let (rows, timelines) = measured.into_iter().unzip();
        Self {
            contestants,
            scenarios,
            setting,
            rows,
            leases: Vec::new(),
            growth: Vec::new(),
            timing: Vec::new(),
            papers: Vec::new(),
            timelines,
        }
    }

    pub(super) fn row(&self, contestant: &str, scenario: &Scenario) -> Option<&Measurement> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.contestant == contestant && row.scenario == scenario.name)
    }

    /// Returns the rows of this scenario, each with its timeline.
    pub(super) fn of_scenario(&self, scenario: &Scenario) -> Vec<(&Measurement, &Timeline)> {
        let all = self.rows.iter().zip(&self.timelines);
        all.filter(|(row, _)| row.scenario == scenario.name)
            .collect()
    }

    /// Describes the faults of a scenario with the times of this comparison.
    pub(super) fn about_scenario(&self, scenario: &Scenario) -> String {
        match self.setting {
            Setting::Simulated(_) => scenario.about.into(),
            Setting::Live { scale, .. } => scenario.about_scaled(scale),
        }
    }

    /// Returns the scenario that shows the failover time: the first one of the list with a fault
    /// that affects all contestants.
    pub(super) fn failover(&self) -> Option<&Scenario> {
        let fit = |it: &&Scenario| !it.needs_store() && !it.faults().is_empty();
        let scenarios = self.scenarios.iter().filter(fit);
        let place = |of: &Scenario| scenario::ALL.iter().position(|it| it.name == of.name);
        scenarios.min_by_key(|it| place(it))
    }
}

/// Counts the messages at the start, at rest, and after the leader was killed.
fn count(contestant: &Contestant, nodes: u32, seed: u64) -> Option<Growth> {
    let nothing = Scenario::of_name("start").expect("a scenario of the list");
    let mut world = new_world(contestant, &nothing, nodes, seed, MOST_MESSAGES);
    world.run_until(SETTLED);
    let start = world.traffic;
    world.run_until(LASTS);
    let end = world.traffic;
    world.inject_after(Duration::ZERO, Fault::Crash(Target::Leader, None));
    world.run_until(LASTS + SETTLED);
    if world.traffic.messages >= MOST_MESSAGES {
        return None;
    }
    let failover = world.traffic - end;
    let rest = end - start;
    let minutes = (LASTS - SETTLED).as_secs_f64() / 60.0;
    Some(Growth {
        nodes,
        at_rest: rest.messages as f64 / minutes,
        start: start.election,
        failover: failover.election,
    })
}

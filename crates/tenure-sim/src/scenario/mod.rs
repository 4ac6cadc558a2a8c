//! The scenarios of the comparison.

mod churn;

use std::time::Duration;

use tenure_core::NodeId;

use crate::names::{self, UnknownName};
use crate::sim::{Fault, Latency, Link, Target};

/// A scenario. All hosts start at once, the faults begin a minute later, and the run ends two
/// minutes after that.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    /// A short description of the faults.
    pub about: &'static str,
    script: fn() -> Vec<(u64, Fault)>,
    /// Whether a comparison without named scenarios leaves it out. Such a scenario compares
    /// strategies with a store to those without one, so it also runs without a store.
    pub only_by_name: bool,
    /// The duration of a run.
    pub lasts: Duration,
    /// Whether a third of the members crash and return all the time, at random times. These faults
    /// depend on the number of members and on the seed.
    pub churns: bool,
}

/// The earliest time of the first fault.
pub const SETTLED: Duration = Duration::from_secs(60);

/// The duration of a run.
pub const LASTS: Duration = Duration::from_secs(180);

impl Scenario {
    /// Returns the faults, with their times after [`SETTLED`].
    #[must_use]
    pub fn faults(&self) -> Vec<(Duration, Fault)> {
        let script = (self.script)().into_iter();
        let faults = script.map(|(secs, fault)| (Duration::from_secs(secs), fault));
        faults.collect()
    }

    /// Returns the faults of a group of this size with this seed. Only `churn` has faults that depend
    /// on them.
    #[must_use]
    pub fn faults_of(&self, nodes: u32, seed: u64) -> Vec<(Duration, Fault)> {
        let mut faults = self.faults();
        if self.churns {
            faults.extend(churn::faults(nodes, seed));
        }
        faults
    }

    /// Describes the faults with times that are multiplied by this factor.
    #[must_use]
    pub fn about_scaled(&self, scale: f64) -> String {
        let mut words: Vec<String> = self.about.split(' ').map(str::to_owned).collect();
        for at in 1..words.len() {
            if words[at] == "s"
                && let Ok(secs) = words[at - 1].parse::<f64>()
            {
                words[at - 1] = format!("{}", (secs * scale * 100.0).round() / 100.0);
            }
        }
        words.join(" ")
    }

    /// Returns whether the scenario needs a store, because a fault affects one.
    #[must_use]
    pub fn needs_store(&self) -> bool {
        let of_store = |fault: &Fault| match fault {
            Fault::Crash(who, _) | Fault::SlowDisk(who, _) => *who == Target::Store,
            _ => false,
        };
        !self.only_by_name && (self.script)().iter().any(|(_, fault)| of_store(fault))
    }

    /// Returns the scenario with this name.
    ///
    /// # Errors
    ///
    /// [`UnknownName`], which contains the most similar known name.
    pub fn of_name(name: &str) -> Result<Self, UnknownName> {
        names::find("scenario", name, ALL.iter().copied(), |it| it.name)
    }
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const fn node(number: u32) -> Target {
    Target::Node(NodeId(number))
}

const fn scenario(
    name: &'static str,
    about: &'static str,
    script: fn() -> Vec<(u64, Fault)>,
) -> Scenario {
    Scenario {
        name,
        about,
        script,
        only_by_name: false,
        lasts: LASTS,
        churns: false,
    }
}

/// A scenario about the store, which runs only by name, with the time from the first fault to the
/// end.
const fn of_store(
    name: &'static str,
    about: &'static str,
    script: fn() -> Vec<(u64, Fault)>,
    secs: u64,
) -> Scenario {
    Scenario {
        only_by_name: true,
        lasts: SETTLED.saturating_add(Duration::from_secs(secs)),
        ..scenario(name, about, script)
    }
}

/// The hosts of a minority that can reach the store: the worst two of five members.
const MINORITY: [Target; 2] = [node(4), node(5)];

fn store_with_minority() -> Fault {
    let mut side = vec![Target::Store];
    side.extend(MINORITY);
    Fault::Part(side)
}

/// The store fails every 10 s, and is back after 5 s each time.
fn flaps(from: u64, times: u64) -> impl Iterator<Item = (u64, Fault)> {
    let crash = |time| (time, Fault::Crash(Target::Store, Some(secs(5))));
    (0..times).map(move |time| crash(from + time * 10))
}

/// Members crash and return all the time.
pub const CHURN: Scenario = Scenario {
    only_by_name: true,
    lasts: SETTLED.saturating_add(churn::LASTS),
    churns: true,
    ..scenario(
        "churn",
        "every third member crashes and returns all the time, each after 10 s on average",
        Vec::new,
    )
};

/// All scenarios.
pub const ALL: &[Scenario] = &[
    scenario("start", "all start; nothing goes wrong", Vec::new),
    scenario(
        "kill-leader",
        "the leader's process is killed for good",
        || vec![(0, Fault::Crash(Target::Leader, None))],
    ),
    scenario(
        "power-cut",
        "the leader's machine loses power for good",
        || vec![(0, Fault::PowerCut(Target::Leader, None))],
    ),
    scenario(
        "kill-two",
        "the leader and the best other member are killed",
        || {
            vec![
                (0, Fault::Crash(Target::BestOther, None)),
                (0, Fault::Crash(Target::Leader, None)),
            ]
        },
    ),
    scenario(
        "restart-leader",
        "the leader is killed and is back 1 s later",
        || vec![(0, Fault::Crash(Target::Leader, Some(secs(1))))],
    ),
    scenario("stop-leader", "the leader is shut down in order", || {
        vec![(0, Fault::Leave(Target::Leader, None))]
    }),
    scenario("freeze-leader", "the leader is frozen for 30 s", || {
        vec![(0, Fault::Freeze(Target::Leader, secs(30)))]
    }),
    scenario(
        "suspend-leader",
        "the leader's machine is suspended for 30 s",
        || vec![(0, Fault::Suspend(Target::Leader, secs(30)))],
    ),
    scenario(
        "restart-loop",
        "the best member starts and dies every 5 s",
        || {
            let crashes = (0..12).map(|time| (time * 5, Fault::Crash(node(1), Some(secs(3)))));
            crashes.collect()
        },
    ),
    scenario(
        "cut-leader",
        "the leader is cut off from all others for 40 s",
        || vec![(0, Fault::Part(vec![Target::Leader])), (40, Fault::Heal)],
    ),
    scenario(
        "part-minority",
        "the best two are partitioned from the others for 40 s",
        || vec![(0, Fault::Part(vec![node(1), node(2)])), (40, Fault::Heal)],
    ),
    scenario(
        "one-way",
        "the link from the leader to the next best is cut for 40 s",
        || {
            vec![
                (0, Fault::CutOneWay(Target::Leader, Target::BestOther)),
                (40, Fault::Heal),
            ]
        },
    ),
    scenario("flaky", "a fifth of all messages is lost for 40 s", || {
        let link = Link {
            latency: Latency::Exponential(Duration::from_millis(2), Duration::from_millis(20)),
            loss: 200_000,
            ..Link::default()
        };
        vec![(0, Fault::Links(link)), (40, Fault::Links(Link::default()))]
    }),
    scenario(
        "slow-links",
        "messages take 0.5 s on average for 40 s",
        || {
            let (least, mean) = (Duration::from_millis(100), Duration::from_millis(400));
            let link = Link {
                latency: Latency::Exponential(least, mean),
                ..Link::default()
            };
            vec![(0, Fault::Links(link)), (40, Fault::Links(Link::default()))]
        },
    ),
    scenario(
        "clock-slow",
        "the leader's clock loses a tenth, and then it is cut off",
        || {
            vec![
                (0, Fault::ClockRate(Target::Leader, -100_000)),
                (20, Fault::Part(vec![Target::Leader])),
                (60, Fault::Heal),
            ]
        },
    ),
    scenario(
        "store-restart",
        "the store is killed and is back 2 s later",
        || vec![(0, Fault::Crash(Target::Store, Some(secs(2))))],
    ),
    scenario("store-outage", "the store is away for 40 s", || {
        vec![(0, Fault::Crash(Target::Store, Some(secs(40))))]
    }),
    scenario(
        "store-slow-disk",
        "every write of the store takes 3 s, and the leader is killed",
        || {
            vec![
                (0, Fault::SlowDisk(Target::Store, secs(3))),
                (0, Fault::Crash(Target::Leader, None)),
            ]
        },
    ),
    of_store(
        "store-down-minute",
        "the store is down for 60 s",
        || vec![(0, Fault::Crash(Target::Store, Some(secs(60))))],
        150,
    ),
    of_store(
        "store-down-day",
        "the store is down for 86400 s",
        || vec![(0, Fault::Crash(Target::Store, Some(secs(86_400))))],
        86_500,
    ),
    of_store(
        "store-down-kill-leader",
        "the store is down for 60 s, and 10 s after it the leader is killed",
        || {
            vec![
                (0, Fault::Crash(Target::Store, Some(secs(60)))),
                (10, Fault::Crash(Target::Leader, None)),
            ]
        },
        150,
    ),
    of_store(
        "store-with-minority",
        "the store and the worst two are partitioned from the others for 60 s",
        || vec![(0, store_with_minority()), (60, Fault::Heal)],
        150,
    ),
    of_store(
        "store-flaps",
        "the store is killed every 10 s for 60 s, and is back 5 s later each time",
        || flaps(0, 6).collect(),
        150,
    ),
    of_store(
        "store-all-at-once",
        "the store is killed every 10 s, the leader is killed for 20 s, the store is with a minority \
         for 20 s, and a fifth of all messages is lost for 20 s",
        || {
            let lossy = Link {
                loss: 200_000,
                ..Link::default()
            };
            let mut faults = vec![
                (7, Fault::Crash(Target::Leader, Some(secs(20)))),
                (30, store_with_minority()),
                (50, Fault::Heal),
                (60, Fault::Links(lossy)),
                (80, Fault::Links(Link::default())),
            ];
            faults.extend(flaps(0, 9));
            faults
        },
        180,
    ),
    CHURN,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_times_of_a_description_are_scaled() {
        let about = |name| Scenario::of_name(name).unwrap().about_scaled(0.2);
        assert_eq!(about("freeze-leader"), "the leader is frozen for 6 s");
        assert_eq!(
            about("slow-links"),
            "messages take 0.1 s on average for 8 s"
        );
        assert_eq!(
            about("store-restart"),
            "the store is killed and is back 0.4 s later"
        );
        for scenario in ALL {
            assert!(!scenario.about.contains("second"), "{}", scenario.name);
        }
    }

    #[test]
    fn the_error_for_an_unknown_scenario_names_the_nearest_one() {
        for (wrong, nearest) in [
            ("kil-leader", "kill-leader"),
            ("kill", "kill-two"),
            ("slow", "slow-links"),
        ] {
            let error = Scenario::of_name(wrong).unwrap_err();
            assert_eq!(error.nearest, nearest, "{wrong}");
            assert!(
                error
                    .to_string()
                    .ends_with(&format!("did you mean {nearest:?}?"))
            );
        }
        assert!(ALL.iter().all(|it| Scenario::of_name(it.name).is_ok()));
    }
}

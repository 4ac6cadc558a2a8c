//! Scenarios for real processes.

use std::time::Duration;

use tenure_sim::scenario::Scenario;
use tenure_sim::sim::{Fault, Latency, Link, Target};

/// The lease duration that the times of scenarios assume: the library's default.
const NOMINAL_LEASE: Duration = Duration::from_secs(15);

/// The faults of a scenario and their times, in proportion to the lease; `None` if real processes
/// can't have one of them.
pub(super) fn faults(scenario: &Scenario, scale: f64) -> Option<Vec<(Duration, Fault)>> {
    let scaled = |time: Duration| time.mul_f64(scale);
    let live = |fault| {
        Some(match fault {
            Fault::Crash(who, back_after) => Fault::Crash(who, back_after.map(scaled)),
            Fault::PowerCut(_, None) | Fault::Part(_) | Fault::CutOneWay(..) | Fault::Heal => fault,
            Fault::Leave(who, back_after) => Fault::Leave(who, back_after.map(scaled)),
            Fault::Freeze(who, time) => Fault::Freeze(who, scaled(time)),
            Fault::Links(link) if link == Link::default() => Fault::Links(Link::AT_ONCE),
            // A connection has no duplicate messages.
            Fault::Links(link) if link.repeats == 0 && link.late.0 == 0 => {
                let latency = match link.latency {
                    Latency::Constant(latency) => Latency::Constant(scaled(latency)),
                    Latency::Uniform(least, end) => Latency::Uniform(scaled(least), scaled(end)),
                    Latency::Exponential(least, mean) => {
                        Latency::Exponential(scaled(least), scaled(mean))
                    }
                };
                Fault::Links(Link { latency, ..link })
            }
            _ => return None,
        })
    };
    let faults = scenario.faults().into_iter();
    faults
        .map(|(at, fault)| Some((scaled(at), live(fault)?)))
        .collect()
}

/// The longest scenario that runs in real time, with the default lease.
const LONGEST: Duration = Duration::from_secs(600);

/// The factor for the times of scenarios.
pub(super) fn scale(lease_duration: Duration) -> f64 {
    lease_duration.as_secs_f64() / NOMINAL_LEASE.as_secs_f64()
}

/// Whether real processes can have all faults of a scenario.
pub(in super::super) fn is_live(scenario: &Scenario) -> bool {
    !scenario.churns && faults(scenario, 1.0).is_some() && scenario.lasts <= LONGEST
}

/// Whether the scenario is about the best candidate, which must be the leader then.
pub(super) fn is_about_the_best(scenario: &Scenario) -> bool {
    let is_best = |who: &Target| matches!(who, Target::Node(node) if node.0 == 1);
    let faults = scenario.faults();
    faults.iter().any(|(_, fault)| match fault {
        Fault::Crash(who, _) | Fault::PowerCut(who, _) => is_best(who),
        Fault::Part(side) => side.iter().any(is_best),
        _ => false,
    })
}

/// The number of candidates below which the scenario leaves no majority.
pub(super) fn least_candidates(scenario: &Scenario) -> u32 {
    let gone = |(_, fault): &(Duration, Fault)| match fault {
        Fault::Crash(who, None) | Fault::PowerCut(who, None) if *who != Target::Store => 1,
        Fault::Part(side) => side.len(),
        _ => 0,
    };
    let gone: usize = scenario.faults().iter().map(gone).sum();
    if gone > 1 { 5 } else { 3 }
}

#[cfg(test)]
mod tests {
    use tenure_sim::scenario;

    use super::*;

    fn of(name: &str) -> Scenario {
        Scenario::of_name(name).unwrap()
    }

    #[test]
    fn faults_of_clocks_and_disks_are_only_simulated() {
        let only_simulated = scenario::ALL.iter().filter(|it| !is_live(it));
        let only_simulated: Vec<&str> = only_simulated.map(|it| it.name).collect();
        assert_eq!(
            only_simulated,
            [
                "suspend-leader",
                "clock-slow",
                "store-slow-disk",
                "store-down-day",
                "churn"
            ]
        );
        assert!(is_about_the_best(&of("restart-loop")) && !is_about_the_best(&of("kill-leader")));
        assert_eq!(least_candidates(&of("kill-leader")), 3);
        assert_eq!(least_candidates(&of("restart-loop")), 3);
        assert_eq!(least_candidates(&of("part-minority")), 5);
    }

    #[test]
    fn times_are_in_proportion_to_the_lease() {
        let scale = scale(Duration::from_secs(3));
        let found = faults(&of("cut-leader"), scale).unwrap();
        assert_eq!(found[1], (Duration::from_secs(8), Fault::Heal));
        let slow = faults(&of("slow-links"), scale).unwrap();
        let millis = Duration::from_millis;
        let latency = Latency::Exponential(millis(20), millis(80));
        let link = Link {
            latency,
            ..Link::default()
        };
        assert_eq!(slow[0].1, Fault::Links(link));
        assert_eq!(slow[1].1, Fault::Links(Link::AT_ONCE));
    }
}

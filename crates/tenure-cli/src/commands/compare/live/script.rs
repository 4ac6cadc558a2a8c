//! Scenarios as actions on real processes.

use std::time::Duration;

use tenure_lab::fault::{Fault, Target};
use tenure_lab::scenario::Scenario;
use tenure_lab::sim::{Latency, Link};

/// The lease duration that the times of scenarios assume: the library's default.
const NOMINAL_LEASE: Duration = Duration::from_secs(15);

/// An action on processes, or on the network between them.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// SIGKILL, and a restart after this time.
    Kill(Target, Option<Duration>),
    /// Cut off and SIGKILL, as if the machine had lost power.
    PowerOff(Target),
    /// SIGTERM, and a restart after this time.
    Stop(Target, Option<Duration>),
    /// Starts this process, if it does not run.
    Start(u32),
    /// SIGSTOP, and SIGCONT after this time.
    Freeze(Target, Duration),
    /// SIGCONT to this process.
    Thaw(u32),
    /// Cuts the links between these and all others.
    Cut(Vec<Target>),
    /// Cuts the link from the first to the second.
    CutOneWay(Target, Target),
    /// Gives all links this latency and loss; `None`: none.
    Slow(Option<Link>),
    /// Restores all links.
    Heal,
}

/// The actions of a scenario and their times, in proportion to the lease; `None` if real processes
/// can't have one of the faults.
pub(super) fn actions(scenario: &Scenario, scale: f64) -> Option<Vec<(Duration, Action)>> {
    let scaled = |time: Duration| time.mul_f64(scale);
    let action = |fault| {
        Some(match fault {
            Fault::Crash {
                who,
                machine: false,
                back_after,
            } => Action::Kill(who, back_after.map(scaled)),
            Fault::Crash {
                who,
                machine: true,
                back_after: None,
            } => Action::PowerOff(who),
            Fault::Leave(who, back_after) => Action::Stop(who, back_after.map(scaled)),
            Fault::Freeze(who, time) => Action::Freeze(who, scaled(time)),
            Fault::Part(side) => Action::Cut(side),
            Fault::CutOneWay(from, to) => Action::CutOneWay(from, to),
            Fault::Links(link) if link == Link::default() => Action::Slow(None),
            // A connection has no duplicate messages.
            Fault::Links(link) if link.repeats == 0 && link.late.0 == 0 => {
                let latency = match link.latency {
                    Latency::Constant(latency) => Latency::Constant(scaled(latency)),
                    Latency::Uniform(least, end) => Latency::Uniform(scaled(least), scaled(end)),
                    Latency::Exponential(least, mean) => {
                        Latency::Exponential(scaled(least), scaled(mean))
                    }
                };
                Action::Slow(Some(Link { latency, ..link }))
            }
            Fault::Heal => Action::Heal,
            _ => return None,
        })
    };
    let faults = scenario.faults().into_iter();
    faults
        .map(|(at, fault)| Some((scaled(at), action(fault)?)))
        .collect()
}

/// The factor for the times of scenarios.
pub(super) fn scale(lease_duration: Duration) -> f64 {
    lease_duration.as_secs_f64() / NOMINAL_LEASE.as_secs_f64()
}

/// Whether real processes can have all faults of a scenario.
pub(in super::super) fn is_live(scenario: &Scenario) -> bool {
    actions(scenario, 1.0).is_some()
}

/// Whether the scenario needs a network of proxies.
pub(super) fn needs_proxies(scenario: &Scenario) -> bool {
    let actions = actions(scenario, 1.0).unwrap_or_default();
    actions
        .iter()
        .any(|(_, action)| matches!(action, Action::Slow(_)))
}

/// Whether the scenario is about the best candidate, which must be the leader then.
pub(super) fn is_about_the_best(scenario: &Scenario) -> bool {
    let is_best = |who: &Target| matches!(who, Target::Node(node) if node.0 == 1);
    let actions = actions(scenario, 1.0).unwrap_or_default();
    actions.iter().any(|(_, action)| match action {
        Action::Kill(who, _) => is_best(who),
        Action::Cut(side) => side.iter().any(is_best),
        _ => false,
    })
}

/// The number of candidates below which the scenario leaves no majority.
pub(super) fn least_candidates(scenario: &Scenario) -> u32 {
    let gone = |(_, action): &(Duration, Action)| match action {
        Action::Kill(who, None) | Action::PowerOff(who) if *who != Target::Store => 1,
        Action::Cut(side) => side.len(),
        _ => 0,
    };
    let actions = actions(scenario, 1.0).unwrap_or_default();
    let gone: usize = actions.iter().map(gone).sum();
    if gone > 1 { 5 } else { 3 }
}

#[cfg(test)]
mod tests {
    use tenure_lab::scenario;

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
            ["suspend-leader", "clock-slow", "store-slow-disk"]
        );
        assert!(needs_proxies(&of("slow-links")) && !needs_proxies(&of("one-way")));
        assert!(is_about_the_best(&of("restart-loop")) && !is_about_the_best(&of("kill-leader")));
        assert_eq!(least_candidates(&of("kill-leader")), 3);
        assert_eq!(least_candidates(&of("restart-loop")), 3);
        assert_eq!(least_candidates(&of("part-minority")), 5);
    }

    #[test]
    fn times_are_in_proportion_to_the_lease() {
        let scale = scale(Duration::from_secs(3));
        let found = actions(&of("cut-leader"), scale).unwrap();
        assert_eq!(found[1], (Duration::from_secs(8), Action::Heal));
        let slow = actions(&of("slow-links"), scale).unwrap();
        let millis = Duration::from_millis;
        let latency = Latency::Exponential(millis(20), millis(80));
        let link = Link {
            latency,
            ..Link::default()
        };
        assert_eq!(slow[0].1, Action::Slow(Some(link)));
        assert_eq!(slow[1].1, Action::Slow(None));
    }
}

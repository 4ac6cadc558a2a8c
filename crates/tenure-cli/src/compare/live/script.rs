//! What of the simulated scenarios can be done to real processes.

use std::time::Duration;

use tenure_lab::fault::{Fault, Target};
use tenure_lab::scenario::Scenario;
use tenure_lab::sim::{Latency, Link};

/// The lease duration that the scenarios' times are made for: the library's default.
const MADE_FOR: Duration = Duration::from_secs(15);

/// Something that is done to processes, or to the network between them.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// SIGKILL, and a start after so long.
    Kill(Target, Option<Duration>),
    /// Nothing gets from it or to it any more, and SIGKILL: as if its machine had lost power.
    Vanish(Target),
    /// SIGTERM, and a start after so long.
    Stop(Target, Option<Duration>),
    /// Starts this one, if it does not run.
    Start(u32),
    /// SIGSTOP, and SIGCONT after so long.
    Freeze(Target, Duration),
    /// SIGCONT to this one.
    Thaw(u32),
    /// Nothing gets from these to the others, or back.
    Cut(Vec<Target>),
    /// Nothing gets from the first to the second.
    CutOneWay(Target, Target),
    /// All links are like this; `None`: as they are.
    Slow(Option<Link>),
    /// Everything gets everywhere again.
    Heal,
}

/// The acts of a scenario and when they happen, in proportion to the lease; `None` where one can't be
/// done to real processes.
pub(super) fn acts(scenario: &Scenario, scale: f64) -> Option<Vec<(Duration, Act)>> {
    let scaled = |time: Duration| time.mul_f64(scale);
    let act = |fault| {
        Some(match fault {
            Fault::Crash {
                who,
                machine: false,
                back_after,
            } => Act::Kill(who, back_after.map(scaled)),
            Fault::Crash {
                who,
                machine: true,
                back_after: None,
            } => Act::Vanish(who),
            Fault::Leave(who, back_after) => Act::Stop(who, back_after.map(scaled)),
            Fault::Freeze(who, time) => Act::Freeze(who, scaled(time)),
            Fault::Part(side) => Act::Cut(side),
            Fault::CutOneWay(from, to) => Act::CutOneWay(from, to),
            Fault::Links(link) if link == Link::default() => Act::Slow(None),
            // Nothing comes twice on a connection.
            Fault::Links(link) if link.repeats == 0 && link.late.0 == 0 => {
                let latency = match link.latency {
                    Latency::Constant(latency) => Latency::Constant(scaled(latency)),
                    Latency::Uniform(least, end) => Latency::Uniform(scaled(least), scaled(end)),
                    Latency::Exponential(least, mean) => {
                        Latency::Exponential(scaled(least), scaled(mean))
                    }
                };
                Act::Slow(Some(Link { latency, ..link }))
            }
            Fault::Heal => Act::Heal,
            _ => return None,
        })
    };
    let acts = scenario.faults().into_iter();
    acts.map(|(at, fault)| Some((scaled(at), act(fault)?)))
        .collect()
}

/// The scenarios' times are multiplied by this.
pub(super) fn scale(lease_duration: Duration) -> f64 {
    lease_duration.as_secs_f64() / MADE_FOR.as_secs_f64()
}

/// Whether it can be played with real processes.
pub(in crate::compare) fn can_play(scenario: &Scenario) -> bool {
    acts(scenario, 1.0).is_some()
}

/// Whether only a network of proxies can do it.
pub(super) fn needs_proxies(scenario: &Scenario) -> bool {
    let acts = acts(scenario, 1.0).unwrap_or_default();
    acts.iter().any(|(_, act)| matches!(act, Act::Slow(_)))
}

/// Whether it is about the best candidate, which is to lead then.
pub(super) fn is_about_the_best(scenario: &Scenario) -> bool {
    let is_best = |who: &Target| matches!(who, Target::Node(node) if node.0 == 1);
    let acts = acts(scenario, 1.0).unwrap_or_default();
    acts.iter().any(|(_, act)| match act {
        Act::Kill(who, _) => is_best(who),
        Act::Cut(side) => side.iter().any(is_best),
        _ => false,
    })
}

/// With fewer candidates no majority would be left.
pub(super) fn least_candidates(scenario: &Scenario) -> u32 {
    let gone = |(_, act): &(Duration, Act)| match act {
        Act::Kill(who, None) | Act::Vanish(who) if *who != Target::Store => 1,
        Act::Cut(side) => side.len(),
        _ => 0,
    };
    let acts = acts(scenario, 1.0).unwrap_or_default();
    let gone: usize = acts.iter().map(gone).sum();
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
    fn what_needs_other_clocks_disks_and_machines_is_only_simulated() {
        let only_simulated = scenario::ALL.iter().filter(|it| !can_play(it));
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
        let acts = acts(&of("cut-leader"), scale).unwrap();
        assert_eq!(acts[1], (Duration::from_secs(8), Act::Heal));
        let slow = super::acts(&of("slow-links"), scale).unwrap();
        let millis = Duration::from_millis;
        let latency = Latency::Exponential(millis(20), millis(80));
        let link = Link {
            latency,
            ..Link::default()
        };
        assert_eq!(slow[0].1, Act::Slow(Some(link)));
        assert_eq!(slow[1].1, Act::Slow(None));
    }
}

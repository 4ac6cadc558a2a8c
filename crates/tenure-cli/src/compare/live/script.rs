//! What of the simulated scenarios can be done to real processes.

use std::time::Duration;

use tenure_lab::fault::{Fault, Who};
use tenure_lab::scenario::Scenario;

/// The lease duration that the scenarios' times are made for: the library's default.
const MADE_FOR: Duration = Duration::from_secs(15);

/// Something that is done to processes, or to the network between them.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// SIGKILL, and a start after so long.
    Kill(Who, Option<Duration>),
    /// SIGTERM, and a start after so long.
    Stop(Who, Option<Duration>),
    /// Starts this one, if it does not run.
    Start(u32),
    /// SIGSTOP, and SIGCONT after so long.
    Freeze(Who, Duration),
    /// SIGCONT to this one.
    Thaw(u32),
    /// Nothing gets from these to the others, or back.
    Cut(Vec<Who>),
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
            Fault::Leave(who, back_after) => Act::Stop(who, back_after.map(scaled)),
            Fault::Freeze(who, time) => Act::Freeze(who, scaled(time)),
            Fault::Part(side) => Act::Cut(side),
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

/// With fewer candidates no majority would be left.
pub(super) fn least_candidates(scenario: &Scenario) -> u32 {
    let gone = |(_, act): &(Duration, Act)| match act {
        Act::Kill(who, None) if *who != Who::Store => 1,
        Act::Cut(side) => side.len(),
        _ => 0,
    };
    let acts = acts(scenario, 1.0).unwrap_or_default();
    let gone: usize = acts.iter().map(gone).sum();
    if gone > 1 { 5 } else { 3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Scenario {
        Scenario::of_name(name).unwrap()
    }

    #[test]
    fn what_needs_other_clocks_disks_and_machines_is_only_simulated() {
        for name in [
            "power-cut",
            "clock-slow",
            "store-slow-disk",
            "flaky",
            "one-way",
        ] {
            assert!(!can_play(&of(name)), "{name}");
        }
        for name in [
            "start",
            "kill-two",
            "freeze-leader",
            "cut-leader",
            "store-restart",
        ] {
            assert!(can_play(&of(name)), "{name}");
        }
        assert_eq!(least_candidates(&of("kill-leader")), 3);
        assert_eq!(least_candidates(&of("restart-loop")), 3);
        assert_eq!(least_candidates(&of("part-minority")), 5);
    }

    #[test]
    fn times_are_in_proportion_to_the_lease() {
        let scale = scale(Duration::from_secs(3));
        let acts = acts(&of("cut-leader"), scale).unwrap();
        assert_eq!(acts[1], (Duration::from_secs(8), Act::Heal));
    }
}

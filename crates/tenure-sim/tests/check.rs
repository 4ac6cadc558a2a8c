//! Checks that the invariants hold under random faults and under every fault script.

use tenure_sim::check::{self, CheckCase, FaultScript};
use tenure_sim::contestant::Contestant;
use tenure_sim::sim::TaskStop;

/// The number of seeds with random faults for each case. `TENURE_SEEDS` sets another number, and
/// `tenure-lab compare check` runs more seeds of the first cases.
const SEEDS: u64 = 30;

/// The number of seeds for each fault script.
const VARIANTS: u64 = 100;

fn case(name: &str, nodes: u32) -> CheckCase {
    let mut case = CheckCase::new(Contestant::of_name(name).unwrap());
    case.contestant.peers.hold_down = Some(case.contestant.term.lease_duration());
    CheckCase { nodes, ..case }
}

/// Runs this number of seeds and fails at the first violation.
#[track_caller]
fn keeps_its_guarantees(case: &CheckCase, seeds: u64) {
    let set = std::env::var("TENURE_SEEDS").ok();
    let seeds = set.map_or(seeds, |set| set.parse().expect("a number"));
    let report = check::run_seeds(case, 0..seeds, false, || {});
    assert_eq!(report.seeds, seeds);
    let name = case.name();
    assert!(report.terms >= seeds, "{name} has terms");
    if let Some(found) = report.findings.first() {
        let (command, nodes) = (case.command(found.seed), case.nodes);
        panic!("{name}, {nodes} hosts: {}; {command}", found.violation);
    }
}

#[test]
fn every_contestant_keeps_its_guarantees_under_random_faults() {
    for (name, nodes) in [
        ("lease", 5),
        ("both", 5),
        ("both", 3),
        ("both-no-quorum", 3),
        ("fallback", 5),
        ("fallback", 3),
        ("fallback-k2", 3),
        ("bully", 5),
        ("bully", 3),
        ("bully-pull", 5),
        ("bully-no-quorum", 5),
        ("bully-no-quorum", 3),
        ("bully-no-quorum", 9),
        ("bully-on-demand-no-quorum", 3),
    ] {
        keeps_its_guarantees(&case(name, nodes), SEEDS);
    }
}

#[test]
fn every_contestant_keeps_its_guarantees_under_every_fault_script() {
    for script in FaultScript::ALL {
        keeps_its_guarantees(&CheckCase::on(script), VARIANTS);
    }
}

#[test]
fn better_members_that_take_over_keep_to_one_leader_at_a_time() {
    let case = CheckCase {
        preempt: true,
        ..case("bully", 3)
    };
    keeps_its_guarantees(&case, SEEDS);
}

#[test]
fn members_without_a_quorum_agree_again_after_severe_faults() {
    for (nodes, preempt) in [(2, false), (3, false), (5, true)] {
        let case = CheckCase {
            severe: true,
            preempt,
            ..case("bully-no-quorum", nodes)
        };
        keeps_its_guarantees(&case, SEEDS);
    }
}

/// Each member has the detector that suits it: push, pull and on-demand in turns.
#[test]
fn members_with_different_detectors_keep_their_guarantees() {
    for nodes in [3, 5] {
        // With a quorum the random faults are severe.
        let quorum = case("bully-mixed", nodes);
        keeps_its_guarantees(&quorum, SEEDS);
        let storm = CheckCase {
            storm: true,
            ..quorum
        };
        keeps_its_guarantees(&storm, SEEDS);
        // Without one, mild faults must not cause two leaders.
        let no_quorum = case("bully-mixed-no-quorum", nodes);
        keeps_its_guarantees(&no_quorum, SEEDS);
        let severe = CheckCase {
            severe: true,
            ..no_quorum
        };
        keeps_its_guarantees(&severe, SEEDS);
    }
}

#[test]
fn epochs_increase_without_a_wall_clock() {
    for (name, nodes) in [
        ("lease", 3),
        ("both", 3),
        ("fallback", 3),
        ("bully", 3),
        ("bully", 5),
    ] {
        let case = CheckCase {
            no_wall_clock: true,
            ..case(name, nodes)
        };
        keeps_its_guarantees(&case, SEEDS);
    }
}

#[test]
fn no_two_tasks_run_at_once_when_all_take_as_long_to_stop_as_they_may() {
    for name in ["lease", "both", "fallback", "bully"] {
        let case = CheckCase {
            task: TaskStop::Slowest,
            ..case(name, 3)
        };
        keeps_its_guarantees(&case, SEEDS);
    }
}

#[test]
fn the_command_that_replays_a_seed_contains_everything_that_the_run_depends_on() {
    let script = CheckCase::on(FaultScript::of_name("parted").unwrap());
    assert_eq!(
        script.command(7),
        "tenure-lab compare check --seeds 7..8 --script parted --trace"
    );
    let schedule = CheckCase {
        nodes: 3,
        ..CheckCase::new(Contestant::of_name("bully").unwrap())
    };
    assert_eq!(
        schedule.command(7),
        "tenure-lab compare check --seeds 7..8 --contestant bully --members 3 --trace"
    );
}

#[test]
fn the_error_for_an_unknown_script_names_the_nearest_one() {
    let error = FaultScript::of_name("late-vote").unwrap_err();
    assert!(error.to_string().ends_with("did you mean \"late-votes\"?"));
}

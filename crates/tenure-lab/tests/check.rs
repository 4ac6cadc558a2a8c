//! The invariants hold under random faults and under every fault script.

use tenure_lab::check::{self, CheckCase, FaultScript};
use tenure_lab::contestant::Contestant;

/// The seeds of random faults for each contestant. `tenure compare check` runs more.
const SEEDS: u64 = 60;

/// The seeds of each fault script.
const VARIANTS: u64 = 200;

/// Runs these seeds and fails at the first violation.
#[track_caller]
fn keeps_its_guarantees(case: &CheckCase, seeds: u64) {
    let report = check::run_seeds(case, 0..seeds, false, || {});
    assert_eq!(report.seeds, seeds);
    let name = case.name();
    assert!(report.terms >= seeds, "{name} has terms");
    if let Some(found) = report.findings.first() {
        let command = case.command(found.seed);
        panic!("{name}: {}; {command}", found.violation);
    }
}

#[test]
fn every_contestant_keeps_its_guarantees_under_random_faults() {
    for (name, members) in [
        ("lease", 5),
        ("both", 5),
        ("both", 3),
        ("both-no-quorum", 3),
        ("bully", 5),
        ("bully", 3),
        ("bully-pull", 5),
        ("bully-no-quorum", 5),
        ("bully-no-quorum", 3),
        ("bully-no-quorum", 9),
        ("bully-on-demand-no-quorum", 3),
    ] {
        let case = CheckCase {
            nodes: members,
            ..CheckCase::new(Contestant::of_name(name).unwrap())
        };
        keeps_its_guarantees(&case, SEEDS);
    }
}

#[test]
fn every_contestant_keeps_its_guarantees_under_every_fault_script() {
    for script in FaultScript::ALL {
        keeps_its_guarantees(&CheckCase::on(script), VARIANTS);
    }
}

//! The algorithms of the papers, judged by the property that the papers prove, and the verdicts about
//! their claims.

mod verdicts;

use tenure_lab::contestant_of_name;
use tenure_sim::check::{self, CheckCase, FaultScript};

fn case(name: &str, nodes: u32) -> CheckCase {
    let contestant = contestant_of_name(name).expect("a contestant");
    CheckCase {
        nodes,
        ..CheckCase::new(contestant)
    }
}

/// Returns the invariants that the runs violate.
fn violated(case: &CheckCase, seeds: u64) -> Vec<&'static str> {
    let report = check::run_seeds(case, 0..seeds, false, || {});
    let findings = report.findings.iter();
    let mut all: Vec<_> = findings.map(|it| it.violation.invariant).collect();
    all.sort_unstable();
    all.dedup();
    all
}

const AGREE: &str = "all that see a leader see the same one";
const LEADS: &str = "there is a leader when the faults are over";

#[test]
fn as_published_members_remain_without_a_leader_in_the_model_of_the_papers() {
    for nodes in [2, 3, 5] {
        let violated = violated(&case("published", nodes), 100);
        assert!(violated.contains(&LEADS), "{nodes}: {violated:?}");
    }
}

#[test]
fn one_call_after_the_other_keeps_the_safety_of_the_papers_in_their_model() {
    for nodes in [3, 5] {
        let violated = violated(&case("garcia-molina", nodes), 100);
        assert!(violated.is_empty(), "{nodes}: {violated:?}");
    }
}

#[test]
fn a_storm_breaks_the_safety_of_every_algorithm_of_the_papers() {
    for name in ["published", "garcia-molina", "textbook"] {
        let storm = CheckCase {
            storm: true,
            ..case(name, 3)
        };
        let violated = violated(&storm, 10);
        assert!(violated.contains(&AGREE), "{name}: {violated:?}");
    }
}

/// The papers' detector gives one recovery notice. If it is lost, the member that missed it finds
/// the leader down whenever it asks, and the leader elects anew until an election hangs.
#[test]
fn a_lost_notice_leaves_the_published_algorithm_without_a_leader() {
    let script = FaultScript::of_name("lost-notice").expect("a script");
    let published = contestant_of_name("published").expect("a contestant");
    let published = violated(&CheckCase::on_another(script, published), 10);
    assert!(published.contains(&LEADS), "{published:?}");
    assert_eq!(violated(&CheckCase::on(script), 10), [""; 0]);
}

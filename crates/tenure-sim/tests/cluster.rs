//! A store of three servers over a shared log, under random faults of the servers, the log and the
//! candidates.
//!
//! `cargo test --release -p tenure-sim --test cluster -- --ignored --nocapture` runs 2,000 seeds, or
//! as many as `TENURE_SEEDS` says.

use tenure_sim::check::{self, CheckCase};
use tenure_sim::contestant::Contestant;

fn case(nodes: u32) -> CheckCase {
    CheckCase {
        nodes,
        ..CheckCase::new(Contestant::of_name("cluster").unwrap())
    }
}

fn keeps_its_promises(nodes: u32, seeds: u64) {
    let case = case(nodes);
    let report = check::run_seeds(&case, 0..seeds, false, || {});
    println!(
        "{nodes} candidates: {seeds} seeds, {} terms, {} messages, {} violations",
        report.terms,
        report.messages,
        report.findings.len()
    );
    assert!(report.terms >= seeds, "{nodes} candidates have terms");
    if let Some(found) = report.findings.first() {
        let command = case.command(found.seed);
        panic!("{nodes} candidates: {}; {command}", found.violation);
    }
}

#[test]
fn a_store_of_several_servers_keeps_its_promises_under_random_faults() {
    for nodes in [3, 5] {
        keeps_its_promises(nodes, 30);
    }
}

#[test]
#[ignore = "takes minutes"]
fn a_store_of_several_servers_keeps_its_promises_for_many_seeds() {
    let set = std::env::var("TENURE_SEEDS").ok();
    let seeds = set.map_or(2_000, |set| set.parse().expect("a number"));
    for nodes in [3, 5] {
        keeps_its_promises(nodes, seeds);
    }
}

#[test]
fn a_seed_gives_the_same_run_of_the_servers() {
    for storm in [false, true] {
        let case = CheckCase { storm, ..case(3) };
        let runs = [7, 7, 8].map(|seed| check::trace(&case, seed).0);
        assert!(runs[0] == runs[1] && runs[0] != runs[2], "storm: {storm}");
    }
}

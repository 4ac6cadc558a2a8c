//! A fallback and a cluster in storms: the store, or the log of the servers, and the members fail in
//! every way.
//!
//! `TENURE_SEEDS=2000 cargo test --release -p tenure-sim --test storms -- --nocapture` runs 2,000
//! seeds of every group and prints a line for each.

use tenure_sim::check::{self, CheckCase};
use tenure_sim::contestant::Contestant;

/// The number of seeds for each group. `TENURE_SEEDS` sets another number.
const SEEDS: u64 = 25;

fn case(nodes: u32, contestant: &str) -> CheckCase {
    let contestant = Contestant::of_name(contestant);
    CheckCase {
        storm: true,
        nodes,
        ..CheckCase::new(contestant.unwrap())
    }
}

/// Runs the storms of these groups: a number of members and a contestant each.
fn run(groups: &[(u32, &str)]) {
    let set = std::env::var("TENURE_SEEDS").ok();
    let seeds = set.map_or(SEEDS, |set| set.parse().expect("a number"));
    let mut findings = Vec::new();
    for &(nodes, contestant) in groups {
        let case = case(nodes, contestant);
        let report = check::run_seeds(&case, 0..seeds, false, || {});
        println!(
            "{contestant}, {nodes} members: {seeds} seeds, {} terms, {} messages, {} violations",
            report.terms,
            report.messages,
            report.findings.len()
        );
        assert!(report.terms >= seeds, "{contestant} of {nodes} has terms");
        for found in &report.findings {
            findings.push(format!("{}; {}", found.violation, case.command(found.seed)));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn a_fallback_keeps_its_promises_and_leads_whenever_a_quorum_is_connected() {
    run(&[
        (3, "fallback-k1"),
        (3, "fallback-k2"),
        (4, "fallback-k2"),
        (5, "fallback-k1"),
        (5, "fallback-k2"),
        (5, "fallback-k3"),
    ]);
}

#[test]
fn a_cluster_keeps_its_promises() {
    run(&[(3, "cluster"), (5, "cluster")]);
}

//! A fallback in storms: the store and the members fail in every way.
//!
//! `TENURE_SEEDS=2000 cargo test --release -p tenure-lab --test storms -- --nocapture` runs 2,000
//! seeds of every group and prints a line for each.

use tenure_lab::check::{self, CheckCase};
use tenure_lab::contestant::Contestant;

/// The number of seeds for each group. `TENURE_SEEDS` sets another number.
const SEEDS: u64 = 25;

fn case(nodes: u32, k: usize) -> CheckCase {
    let contestant = Contestant::of_name(&format!("fallback-k{k}"));
    CheckCase {
        storm: true,
        nodes,
        ..CheckCase::new(contestant.unwrap())
    }
}

#[test]
fn a_fallback_keeps_its_promises_and_leads_whenever_a_quorum_is_connected() {
    let set = std::env::var("TENURE_SEEDS").ok();
    let seeds = set.map_or(SEEDS, |set| set.parse().expect("a number"));
    let mut findings = Vec::new();
    for (nodes, k) in [(3, 1), (3, 2), (4, 2), (5, 1), (5, 2), (5, 3)] {
        let case = case(nodes, k);
        let report = check::run_seeds(&case, 0..seeds, false, || {});
        println!(
            "n = {nodes}, k = {k}: {seeds} seeds, {} terms, {} messages, {} violations",
            report.terms,
            report.messages,
            report.findings.len()
        );
        assert!(report.terms >= seeds, "n = {nodes}, k = {k} has terms");
        for found in &report.findings {
            findings.push(format!(
                "n = {nodes}, k = {k}: {}; {}",
                found.violation,
                case.command(found.seed)
            ));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// Prints the events of one run: `TENURE_STORM=n,k,seed`.
#[test]
#[ignore = "prints the run that TENURE_STORM=n,k,seed names"]
fn print_one_run() {
    let run = std::env::var("TENURE_STORM").expect("TENURE_STORM=n,k,seed");
    let numbers: Vec<u64> = run.split(',').map(|it| it.parse().unwrap()).collect();
    let (trace, violation) =
        check::trace(&case(numbers[0] as u32, numbers[1] as usize), numbers[2]);
    println!("{}", trace.join("\n"));
    println!("{violation:?}");
}

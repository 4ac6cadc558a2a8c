//! Enables one mutation after the other, and checks that the simulation catches it. Prints a line
//! for each mutation, and the number of caught ones.

use std::process::ExitCode;

use tenure_lab::check;

/// The largest number of seeds until a mutation must be caught.
const SEEDS: u64 = 600;

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let asks = |flag: &str| asked.iter().any(|it| it == flag);
    // A test runner first lists the tests, and then the ignored tests, before it runs them.
    if asks("--list") {
        if !asks("--ignored") {
            println!("every_mutation_is_caught: test");
        }
        return ExitCode::SUCCESS;
    }
    let all = check::mutations().expect("a build with mutations");
    let mut caught = 0;
    for case in &all {
        let report = check::run_seeds(case, 0..SEEDS, true, || {});
        caught += usize::from(!report.findings.is_empty());
        println!("{}", case.describe(&report));
    }
    println!("mutations caught: {caught} of {}", all.len());
    if caught == all.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

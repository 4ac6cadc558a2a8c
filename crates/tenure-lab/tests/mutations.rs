//! Mistakes made on purpose: is each found? It prints a line for each, and how many were.

use std::process::ExitCode;

use tenure_lab::check;

/// How many seeds a mistake may go unnoticed.
const PATIENCE: u64 = 600;

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let asks = |flag: &str| asked.iter().any(|it| it == flag);
    // Test runners list tests before they run them, and then those that are ignored.
    if asks("--list") {
        if !asks("--ignored") {
            println!("every_planted_mistake_is_found: test");
        }
        return ExitCode::SUCCESS;
    }
    let all = check::plants().expect("a test build");
    let mut caught = 0;
    for ground in &all {
        let report = check::all(ground, 0..PATIENCE, true, || {});
        caught += usize::from(!report.found.is_empty());
        println!("{}", ground.told(&report));
    }
    println!("planted faults caught: {caught} of {}", all.len());
    if caught == all.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

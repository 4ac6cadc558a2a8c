//! Enables one mutation after the other, and checks that the simulation catches it. Prints a line
//! for each mutation, and the number of caught ones. `TENURE_CONTESTANT` selects the mutations of one
//! contestant, or with `links` those of the elections over broken links.

use std::process::ExitCode;

use tenure_lab::links;
use tenure_sim::check::{self, CheckCase, CheckReport, Finding};

/// The largest number of seeds until a mutation must be caught.
const SEEDS: u64 = 2_000;

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
    let mut all = check::mutations().expect("a build with mutations");
    if let Ok(name) = std::env::var("TENURE_CONTESTANT") {
        all.retain(|case| case.contestant.name == name);
    }
    let mut caught = 0;
    for case in &all {
        let report = check::run_seeds(case, 0..SEEDS, true, || {});
        caught += usize::from(!report.findings.is_empty());
        println!("{}", describe(case, &report));
    }
    let mut count = all.len();
    if std::env::var("TENURE_CONTESTANT").map_or(true, |name| name == "links") {
        for (mistake, found) in links::find_link_mistakes() {
            count += 1;
            caught += usize::from(found.is_some());
            let found = found.unwrap_or_else(|| "not caught".into());
            println!("links {mistake:?}: {found}");
        }
    }
    println!("mutations caught: {caught} of {count}");
    if caught == count {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Returns a line for display: whether the mutation was caught, and by which seed and invariant.
fn describe(case: &CheckCase, report: &CheckReport) -> String {
    let mutation = case.mutation.map(|it| it.to_string()).unwrap_or_default();
    let name = case.name();
    let what = match case.script {
        Some(_) => format!("fault script {name}"),
        None if case.storm => format!("storms, {name}"),
        None => format!("random faults, {name}"),
    };
    let Some(Finding { seed, violation }) = report.findings.first() else {
        let seeds = report.seeds;
        return format!("{mutation}: NOT caught by {seeds} seeds, {what}");
    };
    let command = case.command(*seed);
    format!("{mutation}: caught, {what}, seed {seed}: {violation}\n  {command}")
}

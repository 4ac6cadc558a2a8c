//! Many seeds, on all processors.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::run::{CheckCase, run};
use crate::invariant::Violation;
use crate::parallel::map_parallel;

/// The result of many runs.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// The number of seeds.
    pub seeds: u64,
    /// The number of messages.
    pub messages: u64,
    /// The number of terms.
    pub terms: u64,
    /// The seeds that violate an invariant, in order.
    pub findings: Vec<Finding>,
}

/// A seed that violates an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The seed.
    pub seed: u64,
    /// The violation.
    pub violation: Violation,
}

/// Runs these seeds on all processors and calls `done` after each of them. With `first` it stops at
/// the first violation.
pub fn run_seeds(
    case: &CheckCase,
    seeds: Range<u64>,
    first: bool,
    done: impl Fn() + Sync,
) -> CheckReport {
    let found_one = AtomicBool::new(false);
    let seeds = seeds.take_while(|_| !(first && found_one.load(Ordering::Relaxed)));
    let outcomes = map_parallel(seeds, |seed| {
        let outcome = run(case, seed);
        if outcome.violation.is_some() {
            found_one.store(true, Ordering::Relaxed);
        }
        done();
        (seed, outcome)
    });
    let mut report = CheckReport::default();
    for (seed, outcome) in outcomes {
        report.seeds += 1;
        report.messages += outcome.messages;
        report.terms += outcome.terms;
        let found = outcome.violation;
        let found = found.map(|violation| Finding { seed, violation });
        report.findings.extend(found);
    }
    report
}

//! Many seeds, on all processors.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::run::{CheckCase, RunOutcome, run};
use crate::invariant::Violation;

/// The result of many runs.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// The number of seeds.
    pub seeds: u64,
    /// The number of events in all histories.
    pub events: u64,
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

/// Runs these seeds on all processors and calls `done` after each one. With `first` it stops at the
/// first violation.
pub fn run_seeds(
    case: &CheckCase,
    seeds: Range<u64>,
    first: bool,
    done: impl Fn() + Sync,
) -> CheckReport {
    let next = AtomicU64::new(seeds.start);
    let enough = AtomicBool::new(false);
    let report = Mutex::new(CheckReport::default());
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let outcome = run(case, seed);
                    if first && outcome.violation.is_some() {
                        enough.store(true, Ordering::Relaxed);
                    }
                    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                    report.add(seed, outcome);
                    done();
                }
            });
        }
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The threads finish in any order.
    report.findings.sort_by_key(|found| found.seed);
    report
}

impl CheckReport {
    fn add(&mut self, seed: u64, outcome: RunOutcome) {
        self.seeds += 1;
        self.events += outcome.events as u64;
        self.messages += outcome.messages;
        self.terms += outcome.terms as u64;
        let found = outcome
            .violation
            .map(|violation| Finding { seed, violation });
        self.findings.extend(found);
    }
}

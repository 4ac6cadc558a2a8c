//! Many seeds, on all processors.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::run::{Ground, Outcome, run};
use crate::invariant::Violation;

/// What came of many runs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many seeds were run.
    pub seeds: u64,
    /// How many things have happened that were judged.
    pub events: u64,
    /// How many messages were sent.
    pub messages: u64,
    /// How many terms there were.
    pub terms: u64,
    /// What was not as promised, by seed.
    pub found: Vec<Found>,
}

/// A seed that breaks a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// What it breaks.
    pub violation: Violation,
}

/// Runs these seeds on all processors, up to the first one of which something is found if `first`
/// says so; `done` is told after each one.
pub fn all(ground: &Ground, seeds: Range<u64>, first: bool, done: impl Fn() + Sync) -> Report {
    let next = AtomicU64::new(seeds.start);
    let enough = AtomicBool::new(false);
    let report = Mutex::new(Report::default());
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let outcome = run(ground, seed);
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
    // Whichever thread was quicker.
    report.found.sort_by_key(|found| found.seed);
    report
}

impl Report {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.seeds += 1;
        self.events += outcome.events as u64;
        self.messages += outcome.messages;
        self.terms += outcome.terms as u64;
        let found = outcome.violation.map(|violation| Found { seed, violation });
        self.found.extend(found);
    }
}

//! Ticks: every 10 ms each leader writes a line into a file, with the time on a clock that goes on
//! during a suspension. A judge of them finds leaders that overlap.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The time since the start of the machine.
///
/// # Panics
///
/// If the system has no such clock.
#[must_use]
pub fn boot_time() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .expect("a clock")
        .into()
}

/// A term, from its first tick to its last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The candidate.
    pub candidate: String,
    /// The epoch; 0 for a program without epochs, which ends with its term.
    pub epoch: u64,
    /// The first tick.
    pub first: Duration,
    /// The last tick.
    pub last: Duration,
}

/// A leader that acted after the first tick of a later one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The term that began first, and ended too late.
    pub late: Term,
    /// The other one.
    pub next: Term,
}

impl Overlap {
    /// How long it was late: until it ended, or the other one did.
    #[must_use]
    pub fn by(&self) -> Duration {
        self.late.last.min(self.next.last) - self.next.first
    }

    /// When it was late.
    #[must_use]
    pub fn at(&self) -> Duration {
        self.next.first
    }
}

/// Reads the terms in a file of ticks, in the order in which they began. A line is `MS CANDIDATE`, with
/// the epoch if the candidate has one. A last line without an end is no tick.
#[must_use]
pub fn terms(file: &Path) -> Vec<Term> {
    terms_of(&fs::read_to_string(file).unwrap_or_default())
}

fn terms_of(text: &str) -> Vec<Term> {
    let mut terms = BTreeMap::<(&str, u64), (Duration, Duration)>::new();
    let whole = text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'));
    for line in whole {
        let mut words = line.split(' ');
        let at = words.next().and_then(|ms| ms.parse().ok());
        let (Some(at), Some(candidate)) = (at.map(Duration::from_millis), words.next()) else {
            continue;
        };
        let epoch = words.next().and_then(|it| it.parse().ok()).unwrap_or(0);
        let term = terms.entry((candidate, epoch)).or_insert((at, at));
        *term = (term.0.min(at), term.1.max(at));
    }
    let mut terms: Vec<_> = (terms.into_iter())
        .map(|((candidate, epoch), (first, last))| Term {
            candidate: candidate.into(),
            epoch,
            first,
            last,
        })
        .collect();
    terms.sort_by_key(|term| term.first);
    terms
}

/// The overlaps of these terms, which are in the order in which they began.
#[must_use]
pub fn overlaps(terms: &[Term]) -> Vec<Overlap> {
    let mut found = Vec::new();
    for (index, next) in terms.iter().enumerate() {
        let before = terms[..index].iter();
        let late = before.filter(|it| it.last > next.first);
        found.extend(late.map(|late| Overlap {
            late: late.clone(),
            next: next.clone(),
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_ticks_after_the_begin_of_another_one_is_late() {
        let terms = terms_of("10 a 7\n20 a 7\n30 b\n25 c\n40 a 7\n35 b\n50 a 8\nno tick\n60 c");
        let spans: Vec<_> = terms
            .iter()
            .map(|it| {
                (
                    &*it.candidate,
                    it.epoch,
                    it.first.as_millis(),
                    it.last.as_millis(),
                )
            })
            .collect();
        assert_eq!(
            spans,
            [
                ("a", 7, 10, 40),
                ("c", 0, 25, 25),
                ("b", 0, 30, 35),
                ("a", 8, 50, 50)
            ]
        );
        let found = overlaps(&terms);
        let found: Vec<_> = found
            .iter()
            .map(|it| {
                (
                    &*it.late.candidate,
                    &*it.next.candidate,
                    it.by().as_millis(),
                )
            })
            .collect();
        assert_eq!(found, [("a", "c", 0), ("a", "b", 5)]);
    }

    #[test]
    fn consecutive_terms_do_not_overlap_and_two_terms_of_one_candidate_can() {
        assert_eq!(overlaps(&terms_of("10 a 1\n20 a 1\n20 b 2\n30 b 2\n")), []);
        assert_eq!(overlaps(&terms_of("10 a 1\n20 a 2\n30 a 1\n")).len(), 1);
    }
}

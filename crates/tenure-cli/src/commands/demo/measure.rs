//! Measures terms, overlaps and the fence from the work log.

use std::time::Duration;

use super::fleet::Worker;
use super::work_log::Work;

/// A term as the work log shows it: the work under one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObservedTerm {
    pub(super) worker: Worker,
    pub(super) epoch: u64,
    /// The first and the last accepted work.
    pub(super) first: Duration,
    pub(super) last: Duration,
    /// The last time that this worker checked before a write that it leads, whether the write was
    /// accepted or not.
    pub(super) last_checked: Duration,
}

/// The terms in the order of their epochs. Refused work counts for the last check of its worker.
pub(super) fn terms(log: &[Work]) -> Vec<ObservedTerm> {
    let mut terms: Vec<ObservedTerm> = Vec::new();
    for work in log {
        match terms.iter_mut().find(|term| term.epoch == work.epoch) {
            Some(term) => {
                term.last_checked = term.last_checked.max(work.checked_at);
                if work.accepted {
                    term.last = work.at;
                }
            }
            None if work.accepted => terms.push(ObservedTerm {
                worker: work.worker,
                epoch: work.epoch,
                first: work.at,
                last: work.at,
                last_checked: work.checked_at,
            }),
            None => {}
        }
    }
    terms.sort_by_key(|term| term.epoch);
    terms
}

/// How long two leaders overlapped: the time from the first work of a leader to the last check of a
/// worker with a smaller epoch that still found itself leading. A write that was under way when its
/// leader was frozen does not count: its leader sent it in its term, and the fence refuses it.
pub(super) fn overlap(terms: &[ObservedTerm]) -> Duration {
    let mut overlap = Duration::ZERO;
    for (index, later) in terms.iter().enumerate() {
        for earlier in &terms[..index] {
            overlap = overlap.max(earlier.last_checked.saturating_sub(later.first));
        }
    }
    overlap
}

/// How many writes the fence refused.
pub(super) fn refused(log: &[Work]) -> usize {
    log.iter().filter(|work| !work.accepted).count()
}

/// Whether the table never accepted a smaller epoch after a greater one.
pub(super) fn fence_held(log: &[Work]) -> bool {
    log.iter()
        .filter(|work| work.accepted)
        .is_sorted_by_key(|work| work.epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    const A: Worker = Worker(1);
    const B: Worker = Worker(2);
    const C: Worker = Worker(3);

    fn work(worker: Worker, epoch: u64, checked_at: u32, at: u32, accepted: bool) -> Work {
        Work {
            at: MS * at,
            checked_at: MS * checked_at,
            worker,
            epoch,
            accepted,
        }
    }

    #[test]
    fn a_handover_without_faults_has_no_overlap() {
        let log = [
            work(A, 1, 0, 40, true),
            work(A, 1, 40, 80, true),
            work(B, 2, 100, 140, true),
        ];
        let terms = terms(&log);
        assert_eq!(terms.len(), 2);
        assert_eq!((terms[0].last, terms[1].first), (MS * 80, MS * 140));
        assert_eq!(overlap(&terms), Duration::ZERO);
        assert!(fence_held(&log));
    }

    #[test]
    fn a_write_that_was_under_way_when_its_leader_froze_is_refused_and_does_not_overlap() {
        let log = [
            work(A, 1, 0, 40, true),
            work(B, 2, 900, 940, true),
            work(A, 1, 40, 2_000, false),
        ];
        assert_eq!(overlap(&terms(&log)), Duration::ZERO);
        assert_eq!(refused(&log), 1);
        assert!(fence_held(&log));
    }

    #[test]
    fn an_old_leader_that_still_finds_itself_leading_overlaps() {
        let log = [
            work(A, 1, 0, 40, true),
            work(B, 2, 900, 940, true),
            work(A, 1, 1_000, 1_040, false),
        ];
        assert_eq!(overlap(&terms(&log)), MS * 60);
    }

    #[test]
    fn an_overlap_is_found_across_a_term_in_between() {
        let log = [
            work(A, 1, 0, 40, true),
            work(B, 2, 100, 140, true),
            work(C, 3, 200, 240, true),
            work(A, 1, 250, 290, false),
        ];
        assert_eq!(overlap(&terms(&log)), MS * 110);
    }

    #[test]
    fn a_fence_that_accepts_a_stale_write_is_found() {
        let log = [work(B, 2, 0, 40, true), work(A, 1, 0, 50, true)];
        assert!(!fence_held(&log));
    }
}

//! After a grant or a renewal, no other candidate gets the lease until its duration has passed in
//! true time, less the deviation of clocks, or until the lease was released or broken.

use std::collections::{BTreeMap, BTreeSet};

use super::Promises;
use crate::sim::{HistoryEvent, HistoryEventKind, Time};

/// A lease may be shorter than its duration by one part in this number, because clocks may be fast.
const CLOCKS: u32 = 50;

pub(super) fn check(history: &[HistoryEvent], _: &Promises) -> Result<(), (Time, String)> {
    // The beginning and the end of each lease that nobody gave up.
    let mut kept = BTreeMap::new();
    let mut over = BTreeSet::new();
    for event in history {
        match event.kind {
            HistoryEventKind::Granted { epoch, at, .. } => {
                // The owner of a shared log may learn late that a grant is in the log. The next owner
                // has it then, and may have renewed the lease, or have granted it again. No epoch is
                // granted twice: another invariant checks that.
                let early = kept.iter().find(|&(&before, &(since, until))| {
                    before != epoch && (since..until).contains(&at)
                });
                if let Some((before, (_, until))) = early {
                    let what = format!(
                        "epoch {epoch} is granted, and epoch {before} had the lease until {until}"
                    );
                    return Err((at, what));
                }
            }
            HistoryEventKind::LeaseRuns(epoch, from, duration) if !over.contains(&epoch) => {
                let end = from + (duration - duration / CLOCKS);
                let (since, until) = kept.entry(epoch).or_insert((from, end));
                (*since, *until) = (from.min(*since), end.max(*until));
            }
            HistoryEventKind::LeaseGivenUp(epoch) => {
                over.insert(epoch);
                kept.remove(&epoch);
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, at, epoch, history};
    use super::*;
    use std::time::Duration;
    use tenure_core::NodeId;

    fn granted(number: u64, secs: u64) -> (u64, u32, HistoryEventKind) {
        let what = HistoryEventKind::Granted {
            epoch: epoch(number),
            to: NodeId(1),
            id: number,
            at: at(secs),
        };
        (secs, 0, what)
    }

    fn runs(number: u64, secs: u64) -> (u64, u32, HistoryEventKind) {
        let lasts = Duration::from_secs(15);
        let what = HistoryEventKind::LeaseRuns(epoch(number), at(secs), lasts);
        (secs, 0, what)
    }

    #[test]
    fn a_grant_that_is_told_late_counts_at_its_own_time() {
        let told_late = |number, secs| {
            let (_, node, what) = granted(number, secs);
            let later = [runs(3, 30), (32, node, what)];
            check(&history([runs(1, 0)].into_iter().chain(later)), &PROMISES)
        };
        assert_eq!(told_late(2, 20), Ok(()));
        assert!(told_late(2, 10).is_err());
        assert!(told_late(2, 31).is_err());
    }

    #[test]
    fn a_grant_before_the_end_of_a_lease_is_found() {
        let begin = [granted(1, 0), runs(1, 0), runs(1, 5)];
        let early = begin.clone().into_iter().chain([granted(2, 19)]);
        assert!(check(&history(early), &PROMISES).is_err());
        let in_time = begin.clone().into_iter().chain([granted(2, 20)]);
        assert_eq!(check(&history(in_time), &PROMISES), Ok(()));
        let told_late = begin.clone().into_iter().chain([granted(1, 1)]);
        assert_eq!(check(&history(told_late), &PROMISES), Ok(()));
        let given_up = [
            (6, 0, HistoryEventKind::LeaseGivenUp(epoch(1))),
            granted(2, 6),
        ];
        let given_up = begin.into_iter().chain(given_up);
        assert_eq!(check(&history(given_up), &PROMISES), Ok(()));
    }
}

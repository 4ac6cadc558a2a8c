//! What the passes prove.

use std::time::Duration;

use super::fleet::Worker;
use super::passes::Pass;

/// A reign, as it was seen at the receiver: the passes under one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reign {
    pub(super) worker: Worker,
    pub(super) epoch: u64,
    /// First and last accepted pass.
    pub(super) first: Duration,
    pub(super) last: Duration,
    /// The last time that this leader took itself to be the leader before it wrote, whether what
    /// it wrote was accepted or not.
    pub(super) last_checked: Duration,
}

/// The reigns in order of their epochs; refused passes count for what their worker believed.
pub(super) fn reigns(passes: &[Pass]) -> Vec<Reign> {
    let mut reigns: Vec<Reign> = Vec::new();
    for pass in passes {
        match reigns.iter_mut().find(|reign| reign.epoch == pass.epoch) {
            Some(reign) => {
                reign.last_checked = reign.last_checked.max(pass.checked_at);
                if pass.accepted {
                    reign.last = pass.at;
                }
            }
            None if pass.accepted => reigns.push(Reign {
                worker: pass.worker,
                epoch: pass.epoch,
                first: pass.at,
                last: pass.at,
                last_checked: pass.checked_at,
            }),
            None => {}
        }
    }
    reigns.sort_by_key(|reign| reign.epoch);
    reigns
}

/// How long two leaders acted at once: from the first pass of a leader on, for how long one with a
/// smaller epoch still took itself to be the leader. It does not count a write that was under way
/// when its leader was frozen: that was begun rightly, and the fence refuses it.
pub(super) fn overlap(reigns: &[Reign]) -> Duration {
    let mut overlap = Duration::ZERO;
    for (index, later) in reigns.iter().enumerate() {
        for earlier in &reigns[..index] {
            overlap = overlap.max(earlier.last_checked.saturating_sub(later.first));
        }
    }
    overlap
}

/// How many passes the fence refused.
pub(super) fn refused(passes: &[Pass]) -> usize {
    passes.iter().filter(|pass| !pass.accepted).count()
}

/// Whether the receiver never accepted a smaller epoch after a greater one.
pub(super) fn fence_held(passes: &[Pass]) -> bool {
    passes
        .iter()
        .filter(|pass| pass.accepted)
        .is_sorted_by_key(|pass| pass.epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    const A: Worker = Worker(1);
    const B: Worker = Worker(2);
    const C: Worker = Worker(3);

    fn pass(worker: Worker, epoch: u64, checked_at: u32, at: u32, accepted: bool) -> Pass {
        Pass {
            at: MS * at,
            checked_at: MS * checked_at,
            worker,
            epoch,
            accepted,
        }
    }

    #[test]
    fn a_handover_without_faults_has_no_overlap() {
        let passes = [
            pass(A, 1, 0, 40, true),
            pass(A, 1, 40, 80, true),
            pass(B, 2, 100, 140, true),
        ];
        let reigns = reigns(&passes);
        assert_eq!(reigns.len(), 2);
        assert_eq!((reigns[0].last, reigns[1].first), (MS * 80, MS * 140));
        assert_eq!(overlap(&reigns), Duration::ZERO);
        assert!(fence_held(&passes));
    }

    #[test]
    fn a_write_that_was_under_way_when_its_leader_froze_is_refused_and_no_overlap() {
        let passes = [
            pass(A, 1, 0, 40, true),
            pass(B, 2, 900, 940, true),
            pass(A, 1, 40, 2_000, false),
        ];
        assert_eq!(overlap(&reigns(&passes)), Duration::ZERO);
        assert_eq!(refused(&passes), 1);
        assert!(fence_held(&passes));
    }

    #[test]
    fn an_old_leader_that_still_believes_in_itself_is_an_overlap() {
        let passes = [
            pass(A, 1, 0, 40, true),
            pass(B, 2, 900, 940, true),
            pass(A, 1, 1_000, 1_040, false),
        ];
        assert_eq!(overlap(&reigns(&passes)), MS * 60);
    }

    #[test]
    fn an_overlap_is_seen_across_a_reign_between() {
        let passes = [
            pass(A, 1, 0, 40, true),
            pass(B, 2, 100, 140, true),
            pass(C, 3, 200, 240, true),
            pass(A, 1, 250, 290, false),
        ];
        assert_eq!(overlap(&reigns(&passes)), MS * 110);
    }

    #[test]
    fn a_fence_that_lets_a_stale_write_through_is_noticed() {
        let passes = [pass(B, 2, 0, 40, true), pass(A, 1, 0, 50, true)];
        assert!(!fence_held(&passes));
    }
}

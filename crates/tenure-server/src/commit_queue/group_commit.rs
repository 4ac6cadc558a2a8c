//! How long a commit waits for more changes.

use std::time::Duration;

/// Changes that share a commit.
///
/// Clients whose changes were committed together come back one after the other. A commit for the first of
/// them alone would make all others wait for two commits. So the next commit waits for as many changes as the
/// last one had (and those that came meanwhile) while they keep coming, but never for longer than a commit
/// takes: if they don't come back, the next one expects fewer. One client alone never waits, and no client
/// waits if commits are quick: then the changes that came during a commit are the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupCommit {
    /// How many change sets the next batch may have.
    pub(super) expected: usize,
    /// How long the last commit took.
    pub(super) commit: Duration,
}

impl GroupCommit {
    /// How long the commit thread waits for the next batch to fill.
    pub(super) fn patience(self) -> Duration {
        self.commit.saturating_sub(QUICK)
    }
}

/// A commit that takes no longer costs no more than the time in which some dozens of clients come back. It is
/// not worth waiting for them: the disk works for some while the processor works for others.
const QUICK: Duration = Duration::from_micros(250);

/// If no change came for so long, the others are not waited for.
pub(super) const STALL: Duration = Duration::from_micros(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_awaited_if_commits_are_slow_and_for_less_than_a_commit_takes() {
        let micros = Duration::from_micros;
        for (commit, patience) in [(0, 0), (250, 0), (1_000, 750), (21_000, 20_750)] {
            let (expected, commit) = (64, micros(commit));
            let group = GroupCommit { expected, commit };
            assert_eq!(group.patience(), micros(patience));
        }
    }
}

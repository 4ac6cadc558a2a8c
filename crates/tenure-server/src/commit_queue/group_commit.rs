//! The time for which a commit waits for more changes.

use std::time::Duration;

/// The rule by which changes share a commit.
///
/// After a commit, its clients send their next changes one after the other. If the first of these
/// changes were committed alone, the others would wait for two commits. So the next commit waits
/// until it has as many changes as the last one, plus those that arrived during the last one. It
/// waits only while changes keep arriving, and never for longer than a commit takes. If fewer
/// changes arrive, the next commit expects fewer. A single client never waits. If commits are
/// quick, no client waits: the next batch is the changes that arrived during the last commit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupCommit {
    /// The number of change sets that the next batch may have.
    pub(super) expected: usize,
    /// The duration of the last commit.
    pub(super) commit: Duration,
}

impl GroupCommit {
    /// Returns the time for which the commit thread waits for the next batch to fill.
    pub(super) fn patience(self) -> Duration {
        self.commit.saturating_sub(QUICK)
    }

    /// Returns the time without a new change after which the commit starts without the missing
    /// ones.
    ///
    /// It grows with the duration of a commit, because a commit without the missing changes makes
    /// them wait for that long. A slow service such as etcd may also share the processors with the
    /// clients. Then the pauses between their changes are longer.
    pub(super) fn stall(self) -> Duration {
        QUICK.max(self.commit / 8)
    }
}

/// The duration up to which a commit does not wait for more changes. Such a commit takes no longer
/// than some dozens of clients need to send their next requests. Waiting gains nothing then: the
/// disk works for some clients while the processor works for others.
const QUICK: Duration = Duration::from_micros(250);

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

    #[test]
    fn a_pause_of_an_eighth_of_a_commit_ends_the_wait() {
        let micros = Duration::from_micros;
        for (commit, stall) in [(0, 250), (2_000, 250), (8_000, 1_000)] {
            let (expected, commit) = (64, micros(commit));
            let group = GroupCommit { expected, commit };
            assert_eq!(group.stall(), micros(stall));
        }
    }
}

//! The commit thread: commits queued changes, and undoes changes that can't be committed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tracing::{error, warn};

use super::{Inner, failed};
use crate::commit_queue::{CommitFailure, Work};
use crate::engine::{AppendError, Engine};
use crate::model::{ChangeSet, Content, LeaseChange};

/// The time after an undo at which the timer tries again with a lease. It prevents a busy loop while
/// the disk is full.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The time without an undo for the same cause after which that cause is logged again.
const LOG_AGAIN: Duration = Duration::from_secs(60);

/// The causes for which changes were undone lately, with the times of the last undo. A service that
/// refuses is asked for each batch, and one line for each cause is enough.
#[derive(Debug, Default)]
struct Causes(Vec<(String, Instant)>);

impl Causes {
    /// Notes an undo. Returns whether its cause is new.
    fn is_new(&mut self, cause: &str, now: Instant) -> bool {
        self.0
            .retain(|(_, at)| now.saturating_duration_since(*at) < LOG_AGAIN);
        if let Some((_, at)) = self.0.iter_mut().find(|(known, _)| known == cause) {
            *at = now;
            return false;
        }
        self.0.push((cause.to_owned(), now));
        true
    }
}

impl Inner {
    /// Commits queued changes, until the queue is closed or the engine has failed.
    pub(super) fn run_commits(&self, mut engine: Engine) {
        let mut causes = Causes::default();
        loop {
            let done = match self.commit_queue.take(engine.log.upkeep_within()) {
                Work::Commit(sets) => self.commit(sets, &mut engine, &mut causes),
                Work::Idle => self.upkeep(&mut engine),
                Work::Close => match engine.log.close() {
                    Ok(()) => return,
                    failed => failed,
                },
            };
            if let Err(AppendError::NotOwner(_)) = done {
                // The changes were undone. Nobody waits for this store any more.
                return self.stopping.cancel();
            }
            if let Err(error) = done {
                // The engine is not closed: nothing may be written any more, not even to clean up.
                error!(%error, "the home failed; the store ends");
                return self.fail();
            }
        }
    }

    /// Commits a batch and lets its answers leave.
    ///
    /// # Errors
    ///
    /// The engine failed for good. Everything that is not durable is undone.
    fn commit(
        &self,
        sets: Arc<Vec<ChangeSet>>,
        engine: &mut Engine,
        causes: &mut Causes,
    ) -> Result<(), AppendError> {
        let began = Instant::now();
        match engine.commit(&sets) {
            Ok(()) => {
                let took = began.elapsed();
                let (sets, resolve) = self.commit_queue.publish(sets, took);
                let changes = sets
                    .iter()
                    .map(|set| set.changes.len() + set.documents.len());
                self.metrics.commit(took, changes.sum());
                // Before the answers leave, so that an acknowledged deletion leaves room at once.
                self.forget_deleted(&sets);
                resolve();
                self.commit_queue.announce(sets);
                self.upkeep(engine)
            }
            Err(error) => {
                let failure = match &error {
                    AppendError::DiskFull(_) => {
                        self.metrics.is_disk_full.store(true, Ordering::Relaxed);
                        CommitFailure::DiskFull
                    }
                    AppendError::Busy(_) => CommitFailure::Busy,
                    AppendError::NotOwner(_) => CommitFailure::NotOwner,
                    AppendError::Unknown(_) => CommitFailure::Failed,
                };
                self.undo(sets, failure);
                if !error.is_transient() {
                    return Err(error);
                }
                if causes.is_new(&error.to_string(), Instant::now()) {
                    warn!(%error, "changes were undone");
                }
                Ok(())
            }
        }
    }

    /// Does the work that keeps the log short.
    fn upkeep(&self, engine: &mut Engine) -> Result<(), AppendError> {
        let began = Instant::now();
        let done = engine.log.upkeep();
        if let Err(AppendError::NotOwner(_)) = &done {
            self.undo(Arc::default(), CommitFailure::NotOwner);
        }
        self.metrics.upkeep(began.elapsed());
        done
    }

    /// Ends the store for good. No undone change is tried again.
    pub(super) fn fail(&self) {
        // The guard notifies the server even if the undo panics.
        let _cancelled = self.failed.clone().drop_guard();
        self.undo(Arc::default(), CommitFailure::Failed);
    }

    /// Removes leases whose deletions are durable from the table.
    fn forget_deleted(&self, sets: &[ChangeSet]) {
        let is_deletion = |change: &&LeaseChange| matches!(change.content, Content::Deleted(_));
        let changes = sets.iter().flat_map(|set| &set.changes);
        for change in changes.filter(is_deletion) {
            let mut shard = self.table.lock(&change.key);
            self.tidy(&mut shard, &change.key);
        }
    }

    /// Restores leases to their state before these changes and all changes that are queued behind
    /// them.
    ///
    /// No client has received anything that depended on these changes, because every answer waits
    /// for the revision that it saw. All shards are locked, so no request sees a table that is half
    /// undone, and nothing is queued meanwhile.
    fn undo(&self, sets: Arc<Vec<ChangeSet>>, failure: CommitFailure) {
        let mut shards = self.table.lock_all();
        match failure {
            CommitFailure::Failed => drop(self.ended.set(failed())),
            CommitFailure::NotOwner => drop(self.ended.set(self.not_active())),
            CommitFailure::DiskFull | CommitFailure::Busy => {}
        }
        let (sets, resolve) = self.commit_queue.fail(sets, failure);
        let now = self.clock.now();
        self.timer.rest_until(now + RETRY_AFTER);
        for ChangeSet {
            before, changes, ..
        } in sets.into_iter().rev()
        {
            let Some(LeaseChange { key, .. }) = changes.into_iter().next() else {
                continue;
            };
            let shard = shards.shard_of(&key);
            // A lease with changes that are not durable is never removed from the table.
            let Some(entry) = shard.get_mut(&key) else {
                continue;
            };
            entry.restore(before);
            if let Some(interest) = &entry.interest {
                interest.send_replace(entry.revision);
            }
            self.timer
                .arm(&mut entry.armed, key.hash(), now + RETRY_AFTER, now);
            self.tidy(shard, &key);
        }
        drop(shards);
        resolve();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_of_undos_is_logged_once_while_it_lasts() {
        let mut causes = Causes::default();
        let start = Instant::now();
        let mut is_new =
            |cause, seconds| causes.is_new(cause, start + Duration::from_secs(seconds));
        assert!(is_new("no space", 0));
        for seconds in 1..200 {
            assert!(!is_new("no space", seconds));
        }
        assert!(is_new("no rights", 200));
        assert!(!is_new("no space", 200));
        // It was mended in between.
        assert!(is_new("no space", 260));
        assert_eq!(causes.0.len(), 1);
    }
}

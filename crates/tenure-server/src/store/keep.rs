//! What the store's threads do: one commits what is queued, one looks at leases when time changes them.
//! (The third tells those who watch: [`Events::tell`](crate::events::Events::tell).)

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{error, warn};

use super::{Inner, Status};
use crate::engine::{CommitError, Content, Engine, Write};
use crate::journal::{Change, Taken, Undone};
use crate::table::Key;

/// After an undone change, how long until a lease that somebody waits for or watches is looked at again:
/// a full disk is not asked in a hot loop.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long nothing must be queued until the engine does what is better done then.
const REST_AFTER: Duration = Duration::from_secs(1);

impl Inner {
    /// Looks at leases that somebody waits for or watches, when it is time, until the timer is closed.
    pub(super) fn watch_time(&self) {
        while let Some(key) = self.timer.next(&self.clock) {
            self.look(&key);
        }
    }

    /// Commits what is queued, until the journal is closed or the engine has failed.
    pub(super) fn keep(&self, mut engine: Box<dyn Engine>) {
        let mut rest = Some(REST_AFTER);
        loop {
            let kept = match self.journal.take(rest) {
                Taken::Changes(batch) => {
                    rest = Some(REST_AFTER);
                    self.commit(batch, &mut *engine)
                }
                Taken::Nothing => {
                    rest = None;
                    engine.rest()
                }
                Taken::Closed => match engine.close() {
                    Ok(()) => return,
                    failed => failed,
                },
            };
            if let Err(error) = kept {
                // Not closed: nothing may be written any more, not even to tidy up.
                return self.end(&error);
            }
        }
    }

    /// Commits a batch and lets the answers leave.
    ///
    /// # Errors
    ///
    /// The engine failed for good. What is not durable is undone.
    fn commit(&self, batch: Arc<Vec<Change>>, engine: &mut dyn Engine) -> Result<(), CommitError> {
        let writes: Vec<&Write> = writes(&batch).collect();
        let began = Instant::now();
        match engine.commit(&writes) {
            Ok(()) => {
                let changes = self.journal.publish(batch, began.elapsed());
                self.forget_deleted(&changes);
                self.journal.tell(changes);
                engine.tidy()
            }
            Err(error @ CommitError::Fatal(_)) => {
                self.undo(batch, Undone::Failed);
                Err(error)
            }
            Err(error) => {
                warn!(%error, "changes were undone");
                self.undo(batch, Undone::from(&error));
                Ok(())
            }
        }
    }

    /// The engine failed for good: everybody is told so, and nothing is tried again.
    fn end(&self, error: &CommitError) {
        error!(%error, "the engine failed; the store ends");
        self.undo(Arc::default(), Undone::Failed);
        self.failed.cancel();
    }

    /// A deletion is durable: the lease need not be remembered as deleted any more.
    fn forget_deleted(&self, changes: &[Change]) {
        for write in writes(changes) {
            if matches!(write.content, Content::Deleted(_)) {
                let mut shard = self.table.lock(&write.key);
                self.table
                    .tidy(&mut shard, &write.key, self.journal.durable());
            }
        }
    }

    /// Makes leases what they were before these changes and all that are queued behind them.
    ///
    /// Nothing that rested on any of these was told to anybody: every answer waits for the revision
    /// that it saw. All shards are locked, so nobody sees a table that is half undone, and nothing
    /// can be queued on top.
    fn undo(&self, batch: Arc<Vec<Change>>, undone: Undone) {
        let mut shards = self.table.lock_all();
        if undone == Undone::Failed {
            self.set_status(Status::Failed);
        }
        let (changes, tell) = self.journal.end(batch, undone);
        let mut waited_for: Vec<Key> = Vec::new();
        for change in changes.into_iter().rev() {
            let shard = shards.shard_of(&change.key);
            // A lease with changes that are not durable is never taken out of the table.
            let Some(entry) = shard.get_mut(&change.key) else {
                continue;
            };
            entry.record = change.before.record;
            entry.revision = change.before.revision;
            if let Some(interest) = &mut entry.interest {
                interest.changed.send_replace(entry.revision);
                interest.armed = None;
            }
            if entry.interest.is_some() || self.events.is_watched(&change.key) {
                waited_for.push(change.key.clone());
            }
            self.table.tidy(shard, &change.key, self.journal.durable());
        }
        drop(shards);
        tell();
        for key in waited_for {
            self.timer.arm(self.clock.now() + LOOK_AGAIN, key);
        }
    }
}

fn writes(changes: &[Change]) -> impl Iterator<Item = &Write> {
    let steps = changes.iter().flat_map(|change| &change.steps);
    steps.map(|step| &step.write)
}

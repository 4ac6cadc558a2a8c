//! What the store's threads do: one commits what is queued, one looks at leases when time changes them,
//! one scans namespaces that somebody begins to watch.
//! (The fourth tells those who watch: [`Events::tell`](crate::events::Events::tell).)

use std::any::Any;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tracing::{error, warn};

use super::{Inner, Status};
use crate::engine::{CommitError, Content, Engine, Rest, Write};
use crate::journal::{Change, Taken, Undone};
use crate::panics;
use crate::table::Key;

/// After an undone change, how long until a lease that somebody waits for or watches is looked at again:
/// a full disk is not asked in a hot loop.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How many leases of a namespace are scanned before the next namespace has its turn: a shard is locked for
/// some 10 us to copy their keys.
const SCAN_PAGE: usize = 128;

/// How long the scans work, and then how long they rest. A request that waits for a processor meanwhile
/// waits no longer than it may wait for another request.
const SCAN_TIME: Duration = Duration::from_millis(1);

/// How long nothing must be queued until the engine does what is better done then.
const REST_AFTER: Duration = Duration::from_secs(1);

impl Inner {
    /// Looks at leases that somebody waits for or watches, when it is time, until the timer is closed.
    pub(super) fn watch_time(&self) {
        while let Some(key) = self.timer.next(&self.clock) {
            #[cfg(test)]
            super::tests::panic_if_planted(&key);
            self.look(&key);
        }
    }

    /// Scans namespaces that somebody watches, until the scans are closed. It rests as long as it works,
    /// so all scans together take some half of a processor.
    pub(super) fn scan(&self) {
        let mut began = Instant::now();
        while let Some((namespace, place)) = self.scans.next(&self.clock) {
            let (keys, next) = self.table.scan(&namespace, place, SCAN_PAGE);
            for key in &keys {
                self.look(key);
            }
            self.scans.scanned(namespace, next, !keys.is_empty());
            if began.elapsed() >= SCAN_TIME {
                thread::sleep(SCAN_TIME);
                began = Instant::now();
            }
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
                Taken::Nothing => engine.rest().map(|left| {
                    rest = match left {
                        Rest::More => Some(Duration::ZERO),
                        Rest::Done => None,
                    };
                }),
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
        self.fail();
    }

    /// Ends the store because one of its threads has panicked. Without that thread no expired lease would be
    /// granted, no event sent, or no change committed. The state that it left in memory is not known, so
    /// the thread is not started again. The next start of the store reads what is durable.
    pub(super) fn end_without(&self, thread: &str, panic: &(dyn Any + Send)) {
        let error = panics::text(panic);
        error!(
            thread,
            error, "a thread of the store panicked; the store ends"
        );
        self.fail();
    }

    fn fail(&self) {
        // The server is told also if undoing fails.
        let _told = self.failed.clone().drop_guard();
        self.undo(Arc::default(), Undone::Failed);
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
            entry.lease.restore(change.before.record);
            entry.revision = change.before.revision;
            if let Some(interest) = &mut entry.interest {
                interest.changed.send_replace(entry.revision);
                interest.armed = None;
            }
            if entry.interest.is_some() || self.needs_timer(&change.key) {
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

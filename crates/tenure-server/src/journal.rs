//! The order of changes, and which of them are durable.
//!
//! A change takes its revision and its place in the queue under one lock, so that order of
//! revisions, of the queue and of commits are the same. One thread takes all that is queued, commits
//! it at once and publishes how far the journal is durable. Whoever answers waits for its ticket.
//!
//! Where there is no engine a change is durable at once and nothing is queued.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_core::lease::Record;
use tokio::sync::watch;

use crate::engine::{CommitError, Write};
use crate::events::Events;
use crate::store::Event;
use crate::table::Key;

/// The journal.
#[derive(Debug)]
pub(crate) struct Journal {
    /// All revisions up to this one are durable.
    durable: AtomicU64,
    queue: Mutex<Pending>,
    wake: Condvar,
    keeping: Keeping,
    events: Arc<Events>,
}

/// Whether there is an engine behind the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// Changes are durable when the engine has committed them.
    Durably,
    /// Changes are kept in memory only.
    InMemory,
}

#[derive(Debug)]
struct Pending {
    last: u64,
    changes: Vec<Change>,
    /// How many changes the one who takes them waits for.
    awaited: usize,
    /// Of the present generation: a generation ends when its changes are undone.
    progress: Arc<watch::Sender<Progress>>,
    closing: bool,
}

/// How far a generation of changes has come.
#[derive(Clone, Debug)]
struct Progress {
    durable: u64,
    undone: Option<Undone>,
}

/// Steps that one lease took under one lock, committed together.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) key: Key,
    /// What the lease goes back to if this is undone.
    pub(crate) before: Before,
    pub(crate) steps: Vec<Step>,
}

/// A lease as it was.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) record: Record,
    pub(crate) revision: u64,
}

/// One step, and what to tell of it once it is durable.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) write: Write,
    pub(crate) event: Event,
    /// What is not kept, as it was then: how many waited, and how long the lease had left.
    pub(crate) waiters: u64,
    pub(crate) remaining_ms: Option<u64>,
}

/// Why changes were undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    /// The disk is full.
    DiskFull,
    /// Somebody else has the database locked.
    Busy,
    /// The engine failed for good.
    Failed,
}

impl From<&CommitError> for Undone {
    fn from(error: &CommitError) -> Self {
        match error {
            CommitError::DiskFull(_) => Self::DiskFull,
            CommitError::Busy(_) => Self::Busy,
            CommitError::Fatal(_) => Self::Failed,
        }
    }
}

impl Journal {
    /// A journal whose revisions go on after `last`, and that tells `events` what is durable.
    pub(crate) fn new(last: u64, keeping: Keeping, events: Arc<Events>) -> Self {
        Self {
            durable: AtomicU64::new(last),
            queue: Mutex::new(Pending {
                last,
                changes: Vec::new(),
                awaited: 1,
                progress: generation(last),
                closing: false,
            }),
            wake: Condvar::new(),
            keeping,
            events,
        }
    }

    /// Gives the steps their revisions and queues them. Returns the last revision.
    ///
    /// The caller holds the lease's shard, so nobody sees the change before it has its revision.
    pub(crate) fn append(&self, mut change: Change) -> u64 {
        let mut pending = self.lock();
        for step in &mut change.steps {
            pending.last += 1;
            step.write.revision = pending.last;
        }
        let last = pending.last;
        match self.keeping {
            Keeping::Durably => {
                pending.changes.push(change);
                let is_enough = pending.changes.len() >= pending.awaited;
                drop(pending);
                if is_enough {
                    self.wake.notify_one();
                }
            }
            Keeping::InMemory => {
                self.durable.store(last, Ordering::Release);
                change.log();
                // Under the lock that gives revisions: events come in their order.
                self.events.publish(change.steps);
                drop(pending);
            }
        }
        last
    }

    /// All up to here is durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// What an answer that rests on `revision` must wait for; `None` if that is durable.
    ///
    /// The caller holds the shard in which it saw the revision. Undoing takes all shards, so the
    /// revision belongs to the present generation.
    pub(crate) fn ticket(&self, revision: u64) -> Option<Ticket> {
        if revision <= self.durable() {
            return None;
        }
        let progress = self.lock().progress.subscribe();
        Some(Ticket { revision, progress })
    }

    /// Blocks until something is queued, and takes all of it; `None` once the journal is closed and
    /// nothing is left.
    ///
    /// After a large batch it waits a little for another one: see [`Pace`].
    pub(crate) fn take(&self, pace: &Pace) -> Option<Vec<Change>> {
        let mut pending = self.lock();
        let expected = pace.last + pending.changes.len();
        let until = Instant::now() + pace.patience;
        loop {
            let queued = pending.changes.len();
            let left = until.saturating_duration_since(Instant::now());
            let is_enough = queued >= expected || left.is_zero() || pending.closing;
            if queued > 0 && is_enough {
                return Some(std::mem::take(&mut pending.changes));
            }
            if pending.closing {
                return None;
            }
            pending = if is_enough {
                pending.awaited = 1;
                self.wake
                    .wait(pending)
                    .unwrap_or_else(PoisonError::into_inner)
            } else {
                pending.awaited = expected;
                self.wake
                    .wait_timeout(pending, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            };
        }
    }

    /// All up to `revision` is durable: answers may leave.
    pub(crate) fn publish(&self, revision: u64) {
        self.durable.store(revision, Ordering::Release);
        let progress = Arc::clone(&self.lock().progress);
        progress.send_modify(|progress| progress.durable = revision);
    }

    /// Tells what has become durable, in the order in which it was taken.
    pub(crate) fn tell(&self, changes: Vec<Change>) {
        changes.iter().for_each(Change::log);
        let steps = changes.into_iter().flat_map(|change| change.steps);
        self.events.publish(steps);
    }

    /// Takes what is queued behind changes that are to be undone: it may rest on them. The caller
    /// holds all shards, and calls the result when it has undone everything.
    pub(crate) fn end_generation(&self, undone: Undone) -> (Vec<Change>, impl FnOnce()) {
        let mut pending = self.lock();
        let behind = std::mem::take(&mut pending.changes);
        let ended = std::mem::replace(&mut pending.progress, generation(self.durable()));
        let tell = move || ended.send_modify(|progress| progress.undone = Some(undone));
        (behind, tell)
    }

    /// Lets [`Journal::take`] end after what is queued. The caller sees to it that nothing is
    /// appended from now on.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.wake.notify_all();
    }

    /// The last revision handed out.
    #[cfg(test)]
    pub(crate) fn last(&self) -> u64 {
        self.lock().last
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn generation(durable: u64) -> Arc<watch::Sender<Progress>> {
    Arc::new(watch::Sender::new(Progress {
        durable,
        undone: None,
    }))
}

/// How long to wait for changes to share a commit.
///
/// Clients whose changes were committed together come back one after the other. A commit for the
/// first of them alone would let all others wait for two. So the next commit waits for as many as
/// the last one had (and for those that came meanwhile), but never for longer than a part of what a
/// commit takes: if they don't come back, the next one expects fewer. One client alone never waits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// How many changes the last batch had.
    last: usize,
    patience: Duration,
}

impl Pace {
    /// After a batch of so many that took so long.
    pub(crate) fn after(batch: usize, commit: Duration) -> Self {
        Self {
            last: batch,
            patience: commit / PATIENCE_PART,
        }
    }
}

/// Which part of a commit's time a batch is waited for.
const PATIENCE_PART: u32 = 2;

impl Change {
    /// Logs what happened. Only what is durable has happened.
    fn log(&self) {
        for step in &self.steps {
            step.event.log(&step.write);
        }
    }
}

/// The right to answer, once a revision is durable.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    revision: u64,
    progress: watch::Receiver<Progress>,
}

impl Ticket {
    /// Waits until the revision is durable.
    ///
    /// # Errors
    ///
    /// [`Undone`]: it never will be, and what was seen is no longer so.
    pub(crate) async fn durable(mut self) -> Result<(), Undone> {
        let revision = self.revision;
        let decided =
            |progress: &Progress| progress.durable >= revision || progress.undone.is_some();
        match self.progress.wait_for(decided).await {
            Ok(progress) if progress.durable >= revision => Ok(()),
            Ok(progress) => Err(progress.undone.unwrap_or(Undone::Failed)),
            // The journal is gone and has not said that it was durable.
            Err(_) => Err(Undone::Failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Content;

    fn journal(last: u64, keeping: Keeping) -> Journal {
        Journal::new(last, keeping, Arc::new(Events::after(last)))
    }

    fn change() -> Change {
        let key = Key::of_text("a/b");
        let write = Write {
            key: key.clone(),
            revision: 0,
            content: Content::Deleted(None),
            term: None,
        };
        let before = Before {
            record: Record::default(),
            revision: 0,
        };
        let event = Event::Deleted;
        let steps = vec![Step {
            write,
            event,
            waiters: 0,
            remaining_ms: None,
        }];
        Change { key, before, steps }
    }

    fn is_pending(ticket: &Ticket) -> bool {
        let progress = ticket.progress.borrow();
        progress.durable < ticket.revision && progress.undone.is_none()
    }

    #[tokio::test]
    async fn a_ticket_is_good_when_its_revision_is_durable_and_not_before() {
        let journal = journal(10, Keeping::Durably);
        assert!(journal.ticket(10).is_none());
        assert_eq!(journal.append(change()), 11);
        let ticket = journal.ticket(11).unwrap();
        assert_eq!(journal.take(&Pace::default()).unwrap().len(), 1);
        journal.publish(10);
        assert!(is_pending(&ticket));
        journal.publish(11);
        assert_eq!(ticket.durable().await, Ok(()));
    }

    #[tokio::test]
    async fn what_was_undone_stays_so_whatever_becomes_durable_later() {
        let journal = journal(0, Keeping::Durably);
        let (first, second) = (journal.append(change()), journal.append(change()));
        let (kept, lost) = (journal.ticket(first), journal.ticket(second));
        journal.publish(first);
        let (behind, tell) = journal.end_generation(Undone::DiskFull);
        tell();
        assert_eq!(behind.len(), 2);
        let third = journal.append(change());
        let later = journal.ticket(third).unwrap();
        journal.publish(third);
        assert_eq!(kept.unwrap().durable().await, Ok(()));
        assert_eq!(lost.unwrap().durable().await, Err(Undone::DiskFull));
        assert_eq!(later.durable().await, Ok(()));
    }

    #[tokio::test]
    async fn a_journal_that_is_gone_does_not_say_yes() {
        let journal = journal(0, Keeping::Durably);
        journal.append(change());
        let ticket = journal.ticket(1).unwrap();
        drop(journal);
        assert_eq!(ticket.durable().await, Err(Undone::Failed));
    }

    #[test]
    fn without_an_engine_everything_is_durable_at_once() {
        let journal = journal(0, Keeping::InMemory);
        let revision = journal.append(change());
        assert!(journal.ticket(revision).is_none());
    }
}

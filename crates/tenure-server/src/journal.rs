//! The order of changes, and which of them are durable.
//!
//! A change takes its revision and its place in the queue under one lock, so that order of
//! revisions, of the queue and of commits are the same. One thread takes all that is queued, commits
//! it at once and publishes how far the journal is durable. Whoever answers waits for its ticket.
//!
//! Where there is no engine a change is durable at once and nothing is queued.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::lease::Record;
use tokio::sync::watch;
use tokio::task;

use crate::engine::{CommitError, Write};
use crate::events::Events;
use crate::store::Event;
use crate::table::{Entry, Key};

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
    /// How those who wait for each other do it.
    pace: Pace,
    /// How many changes the one who takes them waits for.
    awaited: usize,
    /// What becomes of the changes that are queued.
    queued: Outcome,
    /// What becomes of those that were taken last, and the last of their revisions.
    taken: Outcome,
    taken_up_to: u64,
    /// The changes that were taken last, until they are durable or undone.
    taken_changes: Arc<Vec<Change>>,
    closing: bool,
}

/// What became of a batch: it is durable, or undone. Each batch has its own, so that only those who wait
/// for this one are woken.
type Outcome = watch::Sender<Option<Result<(), Undone>>>;

/// What there is to do for the one who commits.
#[derive(Debug)]
pub(crate) enum Taken {
    /// These changes are to be committed.
    Changes(Arc<Vec<Change>>),
    /// Nothing was queued for as long as was to be waited.
    Nothing,
    /// The journal is closed and nothing is left.
    Closed,
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
#[derive(Clone, Debug)]
pub(crate) struct Before {
    pub(crate) record: Record,
    pub(crate) revision: u64,
}

impl Before {
    /// The lease as it is now.
    pub(crate) fn of(entry: &Entry) -> Self {
        Self {
            record: entry.lease.record().clone(),
            revision: entry.revision,
        }
    }
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
                pace: Pace::default(),
                awaited: 1,
                queued: Outcome::default(),
                taken: Outcome::default(),
                taken_up_to: last,
                taken_changes: Arc::default(),
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

    /// The lease as its last durable step left it, if it took steps since that are not durable yet.
    ///
    /// The caller holds the lease's shard, so none of these is undone meanwhile.
    pub(crate) fn last_durable(&self, key: &Key) -> Option<Before> {
        let pending = self.lock();
        // Read under the lock: whoever was answered on a revision before this call saw it durable, so
        // nothing older than that is returned.
        let durable = self.durable();
        let in_flight = pending.taken_changes.iter().chain(&pending.changes);
        let mut of_lease = in_flight.filter(|change| change.key == *key);
        let first = of_lease.find(|change| change.last_revision() > durable)?;
        Some(first.before.clone())
    }

    /// What an answer that rests on `revision` must wait for; `None` if that is durable.
    ///
    /// The caller holds the shard in which it saw the revision. Undoing takes all shards, so the
    /// revision was not undone: it is in the batch that was taken last, or in the queue.
    pub(crate) fn ticket(&self, revision: u64) -> Option<Ticket> {
        if revision <= self.durable() {
            return None;
        }
        let pending = self.lock();
        // Once more: under the lock the batch that was taken is not published in between.
        if revision <= self.durable() {
            return None;
        }
        let batch = if revision <= pending.taken_up_to {
            &pending.taken
        } else {
            &pending.queued
        };
        Some(Ticket {
            outcome: batch.subscribe(),
            look_out: pending.pace.look_out(),
        })
    }

    /// Blocks until something is queued, and takes all of it; or until nothing was for so long.
    ///
    /// After a large batch it waits a little for another one: see [`Pace`]. The caller takes no more
    /// before it has published what it took, or ended it.
    pub(crate) fn take(&self, at_most: Option<Duration>) -> Taken {
        let began = Instant::now();
        let mut pending = self.lock();
        let pace = pending.pace;
        let patience = pace.patience();
        let (mut seen, mut came_at) = (0, began);
        loop {
            let queued = pending.changes.len();
            let now = Instant::now();
            if queued > seen {
                (seen, came_at) = (queued, now);
            }
            let until = (came_at + STALL).min(began + patience);
            let left = until.saturating_duration_since(now);
            let is_enough = queued >= pace.expected || left.is_zero() || pending.closing;
            if queued > 0 && is_enough {
                pending.taken = std::mem::take(&mut pending.queued);
                pending.taken_up_to = pending.last;
                pending.taken_changes = Arc::new(std::mem::take(&mut pending.changes));
                return Taken::Changes(Arc::clone(&pending.taken_changes));
            }
            if pending.closing {
                return Taken::Closed;
            }
            if pace.is_brisk() && now < began + LOOK_OUT {
                // Nobody need wake it.
                pending.awaited = usize::MAX;
                drop(pending);
                thread::yield_now();
                pending = self.lock();
                continue;
            }
            let wait = match (is_enough, at_most) {
                (false, _) => Some(left),
                (true, Some(at_most)) => match (began + at_most).checked_duration_since(now) {
                    Some(left) => Some(left),
                    None => return Taken::Nothing,
                },
                (true, None) => None,
            };
            pending.awaited = if is_enough { 1 } else { pace.expected };
            pending = match wait {
                Some(wait) => {
                    let waited = self.wake.wait_timeout(pending, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.wake.wait(pending);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    /// The batch that was taken is durable after a commit that took so long: answers may leave. Returns
    /// its changes.
    pub(crate) fn publish(&self, batch: Arc<Vec<Change>>, commit: Duration) -> Vec<Change> {
        if let Some(last) = batch.last() {
            self.durable.store(last.last_revision(), Ordering::Release);
        }
        let mut pending = self.lock();
        let taken = std::mem::take(&mut pending.taken);
        pending.pace = Pace {
            expected: batch.len() + pending.changes.len(),
            commit,
        };
        let changes = pending.take_back(batch);
        drop(pending);
        taken.send_replace(Some(Ok(())));
        changes
    }

    /// Tells what has become durable, in the order in which it was taken.
    pub(crate) fn tell(&self, changes: Vec<Change>) {
        changes.iter().for_each(Change::log);
        let steps = changes.into_iter().flat_map(|change| change.steps);
        self.events.publish(steps);
    }

    /// Returns the changes that were taken and are to be undone, and what is queued behind them: it may
    /// rest on them. The caller holds all shards, and calls the result when it has undone everything.
    pub(crate) fn end(
        &self,
        batch: Arc<Vec<Change>>,
        undone: Undone,
    ) -> (Vec<Change>, impl FnOnce()) {
        let mut pending = self.lock();
        let mut changes = pending.take_back(batch);
        changes.append(&mut pending.changes);
        pending.taken_up_to = pending.last;
        let taken = std::mem::take(&mut pending.taken);
        let queued = std::mem::take(&mut pending.queued);
        let tell = move || {
            for ended in [taken, queued] {
                ended.send_replace(Some(Err(undone)));
            }
        };
        (changes, tell)
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

impl Pending {
    /// The batch that was taken, which nobody needs to look into any more.
    fn take_back(&mut self, batch: Arc<Vec<Change>>) -> Vec<Change> {
        self.taken_changes = Arc::default();
        // The queue had the only other handle, and is locked.
        Arc::into_inner(batch).unwrap_or_default()
    }
}

/// How those who commit and those whose changes are committed wait for each other.
///
/// **Changes that share a commit.** Clients whose changes were committed together come back one after
/// the other. A commit for the first of them alone would let all others wait for two. So the next commit
/// waits for as many as the last one had (and for those that came meanwhile) while they keep coming, but
/// never for longer than a commit takes: if they don't come back, the next one expects fewer. One client
/// alone never waits, and nobody does where commits are quick.
///
/// **A lease that goes from hand to hand.** There a commit and the wake of the next one's thread take
/// turns, and on a quick disk the wake can take as long as a third of the commit. So where few come and
/// commits are quick neither side sleeps at once: it looks out for the other for about as long as that
/// takes, and lets everybody else who has something to do go before.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// How many changes may be in the next batch.
    expected: usize,
    /// How long the last commit took.
    commit: Duration,
}

impl Pace {
    /// How long the next batch is waited for.
    fn patience(self) -> Duration {
        self.commit.saturating_sub(QUICK)
    }

    /// Whether so few come, one after the other, that the next one is waited for without sleep.
    const fn is_brisk(self) -> bool {
        0 < self.expected && self.expected <= FEW
    }

    /// How long one who was granted a lease looks out for the commit before it sleeps.
    fn look_out(self) -> Duration {
        match self.is_brisk() && self.commit <= LOOK_OUT_FOR_COMMIT {
            true => LOOK_OUT_FOR_COMMIT,
            false => Duration::ZERO,
        }
    }
}

/// A commit that takes no longer costs no more than the time that some dozens of clients take to come
/// back, so it is not waited for them: the disk works for some while the processor works for others.
const QUICK: Duration = Duration::from_micros(250);

/// When nobody came for so long, the others are not waited for.
const STALL: Duration = Duration::from_micros(250);

/// How long the one who commits looks out for the next one of few before it sleeps: as long as it would
/// take to be woken. A lease that goes from hand to hand comes back in less.
const LOOK_OUT: Duration = Duration::from_micros(100);

/// How long one who was granted a lease looks out for the commit at most. After a longer one the wake
/// does not count.
const LOOK_OUT_FOR_COMMIT: Duration = Duration::from_millis(1);

const FEW: usize = 4;

impl Change {
    fn last_revision(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.write.revision)
    }

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
    /// What becomes of its batch.
    outcome: watch::Receiver<Option<Result<(), Undone>>>,
    look_out: Duration,
}

impl Ticket {
    /// Waits until the revision is durable.
    ///
    /// # Errors
    ///
    /// [`Undone`]: it never will be, and what was seen is no longer so.
    pub(crate) async fn durable(mut self) -> Result<(), Undone> {
        match self.outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.unwrap_or(Err(Undone::Failed)),
            // The journal is gone and has not said that it was durable.
            Err(_) => Err(Undone::Failed),
        }
    }

    /// The same for the one whom others wait for: where that will not take long it does not sleep.
    pub(crate) async fn durable_next(self) -> Result<(), Undone> {
        let began = Instant::now();
        while began.elapsed() < self.look_out && self.outcome.borrow().is_none() {
            task::yield_now().await;
        }
        self.durable().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Content, Deleted};

    fn journal(last: u64, keeping: Keeping) -> Journal {
        Journal::new(last, keeping, Arc::new(Events::after(last)))
    }

    fn change() -> Change {
        let key = Key::of_text("a/b");
        let write = Write {
            key: key.clone(),
            revision: 0,
            content: Content::Deleted(Deleted::default()),
            retired: None,
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
        ticket.outcome.borrow().is_none()
    }

    fn take(journal: &Journal) -> Arc<Vec<Change>> {
        match journal.take(Some(Duration::ZERO)) {
            Taken::Changes(batch) => batch,
            Taken::Nothing | Taken::Closed => Arc::default(),
        }
    }

    #[tokio::test]
    async fn a_ticket_is_good_when_its_revision_is_durable_and_not_before() {
        let journal = journal(10, Keeping::Durably);
        assert!(journal.ticket(10).is_none());
        assert_eq!(journal.append(change()), 11);
        let ticket = journal.ticket(11).unwrap();
        let batch = take(&journal);
        // While that one is on its way to the disk, others queue up behind it.
        assert_eq!(journal.append(change()), 12);
        let (again, behind) = (journal.ticket(11).unwrap(), journal.ticket(12).unwrap());
        assert!([&ticket, &again, &behind].into_iter().all(is_pending));
        assert_eq!(journal.publish(batch, Duration::ZERO).len(), 1);
        assert_eq!(ticket.durable().await, Ok(()));
        assert_eq!(again.durable().await, Ok(()));
        assert!(is_pending(&behind));
        assert!(journal.ticket(11).is_none());
        let batch = take(&journal);
        assert!(is_pending(&behind));
        assert_eq!(journal.publish(batch, Duration::ZERO).len(), 1);
        assert_eq!(behind.durable().await, Ok(()));
        assert!(take(&journal).is_empty());
    }

    #[tokio::test]
    async fn what_was_undone_stays_so_whatever_becomes_durable_later() {
        let journal = journal(0, Keeping::Durably);
        let first = journal.append(change());
        let kept = journal.ticket(first);
        journal.publish(take(&journal), Duration::ZERO);
        let second = journal.append(change());
        let lost = journal.ticket(second);
        let batch = take(&journal);
        let third = journal.append(change());
        let behind = journal.ticket(third);
        let (changes, tell) = journal.end(batch, Undone::DiskFull);
        tell();
        let revisions: Vec<_> = changes.iter().map(Change::last_revision).collect();
        assert_eq!(revisions, [second, third]);
        let fourth = journal.append(change());
        let later = journal.ticket(fourth).unwrap();
        assert!(is_pending(&later));
        journal.publish(take(&journal), Duration::ZERO);
        assert_eq!(kept.unwrap().durable().await, Ok(()));
        assert_eq!(lost.unwrap().durable().await, Err(Undone::DiskFull));
        assert_eq!(behind.unwrap().durable().await, Err(Undone::DiskFull));
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
    fn a_batch_is_waited_for_where_commits_are_slow_and_for_less_than_one_takes() {
        let micros = Duration::from_micros;
        for (commit, patience) in [(0, 0), (250, 0), (1_000, 750), (21_000, 20_750)] {
            let (expected, commit) = (64, micros(commit));
            let pace = Pace { expected, commit };
            assert_eq!(pace.patience(), micros(patience));
        }
    }

    #[test]
    fn one_of_few_looks_out_for_a_commit_that_is_quick() {
        let millis = Duration::from_millis;
        for (expected, commit, looks) in [
            (0, millis(0), false),
            (1, millis(0), true),
            (4, millis(1), true),
            (1, millis(2), false),
            (5, millis(0), false),
        ] {
            let pace = Pace { expected, commit };
            assert_eq!(!pace.look_out().is_zero(), looks, "{pace:?}");
            assert!(pace.look_out() <= millis(1));
        }
    }

    #[test]
    fn without_an_engine_everything_is_durable_at_once() {
        let journal = journal(0, Keeping::InMemory);
        let revision = journal.append(change());
        assert!(journal.ticket(revision).is_none());
    }
}

//! The order of changes, and the revision up to which they are durable.
//!
//! A change gets its revision and its position in the queue under one lock, so revisions, the queue
//! and commits have the same order. The commit thread takes a batch, commits it, and publishes the
//! revision up to which the queue is durable. A request answers once its [`Ticket`] reports
//! success. The sinks receive only durable changes.
//!
//! If the store is in memory, a change is durable at once and the queue stays empty.

mod group_commit;
mod ticket;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::model::{ChangeSet, LeaseChange, LeaseKey, LeaseVersion, Sink};

use group_commit::GroupCommit;
use ticket::Outcome;

pub(crate) use ticket::Ticket;

/// The queue of changes that wait for the next commit.
#[derive(Debug)]
pub(crate) struct CommitQueue {
    /// All revisions up to this one are durable.
    durable: AtomicU64,
    state: Mutex<State>,
    wake: Condvar,
    durability: Durability,
    sinks: Vec<Arc<dyn Sink>>,
}

/// The condition under which a change is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A change is durable when the engine has committed it.
    OnDisk,
    /// A change is durable at once, because the store is in memory.
    InMemory,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    /// Batches that wait for the commit thread, oldest first.
    queued: VecDeque<QueuedBatch>,
    /// The batch that the commit thread has taken, until the batch is durable or undone.
    taken: Option<QueuedBatch>,
    group: GroupCommit,
    /// The time at which a batch without changes was taken last.
    confirmed_at: Option<Instant>,
    /// Whether all answers wait for an append.
    confirms_all: bool,
    /// The number of change sets for which the commit thread waits; `None` while it commits. Fewer
    /// change sets do not wake the thread.
    awaited: Option<usize>,
    closing: bool,
}

#[derive(Default)]
struct QueuedBatch {
    sets: Arc<Vec<ChangeSet>>,
    bytes: usize,
    outcome: Outcome,
    callbacks: Vec<Callback>,
}

type Callback = Box<dyn FnOnce(Result<(), CommitFailure>) + Send>;

/// The next work of the commit thread.
#[derive(Debug)]
pub(crate) enum Work {
    /// Commit these change sets.
    Commit(Arc<Vec<ChangeSet>>),
    /// Nothing was queued for the given time.
    Idle,
    /// The queue is closed and empty.
    Close,
}

/// The reason why changes were undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitFailure {
    /// The disk is full.
    DiskFull,
    /// The engine refused the change, and may accept it later: there is no open file left
    /// for the next file of the log, or the service of a shared log refused.
    Busy,
    /// Another server owns the log. The change may be in the log, if it was under way.
    NotOwner,
    /// The engine failed for good.
    Failed,
}

/// The size in bytes from which a batch accepts no more change sets. An entry of a cluster's log has less
/// than 1 MiB, also with a blob in its last change set.
const BATCH_BYTES: usize = 512 * 1024;

/// The time for which the commit thread looks for the next change before it sleeps. A client that got
/// an answer from one commit often sends the change for the next one within this time. If the thread
/// sleeps, its wake-up makes that change wait for a tenth of a commit.
const AWAKE: Duration = Duration::from_micros(50);

/// The least time between two appends without changes that answers wait for. More of them would
/// only wake the engine more often. A receiver waits for a verification before it accepts a write.
const CONFIRM_EVERY: Duration = Duration::from_millis(20);

/// The same if all answers wait for appends. Nearly all of them are renewals, which leaders send
/// seconds before they need the answer, so more of them can share an append.
const CONFIRM_ALL_EVERY: Duration = Duration::from_millis(40);

impl CommitQueue {
    /// Creates a queue whose first revision follows `last`.
    pub(crate) fn new(last: u64, durability: Durability, sinks: Vec<Arc<dyn Sink>>) -> Self {
        Self {
            durable: AtomicU64::new(last),
            state: Mutex::new(State {
                last,
                ..State::default()
            }),
            wake: Condvar::new(),
            durability,
            sinks,
        }
    }

    /// Lets the queue expect that all answers wait for [`CommitQueue::confirm`].
    pub(crate) fn expect_all_confirmed(&self) {
        self.lock().confirms_all = true;
    }

    /// Gives the changes their revisions and queues them. Returns the last revision, and the ticket
    /// that an answer must wait for; `None` if the changes are durable at once.
    ///
    /// The caller holds the lock of the lease's shard, so no request sees the changes before they
    /// have revisions.
    pub(crate) fn append(&self, mut set: ChangeSet) -> (u64, Option<Ticket>) {
        let mut state = self.lock();
        for change in &mut set.changes {
            state.last += 1;
            change.revision = state.last;
        }
        for document in &mut set.documents {
            state.last += 1;
            document.revision = state.last;
        }
        let last = state.last;
        if self.durability == Durability::InMemory {
            self.tell_durable(std::slice::from_ref(&set));
            self.durable.store(last, Ordering::Release);
            // Called under the lock, so that calls come in the order of revisions.
            self.announce(vec![set]);
            return (last, None);
        }
        let ticket = state.push(set);
        let queued = state.len();
        let wakes = state
            .awaited
            .take_if(|awaited| queued >= *awaited)
            .is_some();
        drop(state);
        if wakes {
            self.wake.notify_one();
        }
        (last, Some(ticket))
    }

    /// Returns the revision up to which all changes are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Returns the lease as its last durable change left it, if the lease has changes that are not
    /// durable yet.
    ///
    /// The caller holds the lock of the lease's shard, so no change of the lease is undone
    /// meanwhile.
    pub(crate) fn last_durable(&self, key: &LeaseKey) -> Option<LeaseVersion> {
        let state = self.lock();
        // This is read under the lock. A request that was answered before this call saw a durable
        // revision, so this call never returns an older one.
        let durable = self.durable();
        let in_flight = state.taken.iter().chain(&state.queued);
        let mut of_lease = in_flight.flat_map(|batch| batch.sets.iter());
        let first = of_lease.find(|set| set.is_of(key) && set.last_revision() > durable)?;
        Some(first.before.clone())
    }

    /// Returns the ticket that an answer must wait for if it depends on `revision`; `None` if
    /// `revision` is durable.
    ///
    /// The caller still holds the lock of the shard under which it read the revision. An undo locks
    /// all shards, so the revision was not undone: a queued batch or the batch in the commit thread
    /// contains it.
    pub(crate) fn ticket(&self, revision: u64) -> Option<Ticket> {
        if revision <= self.durable() {
            return None;
        }
        let mut state = self.lock();
        let batch = self.batch_of(&mut state, revision)?;
        Some(Ticket(batch.outcome.subscribe()))
    }

    /// Calls `callback` when `revision` is durable or undone; at once if it is durable already.
    ///
    /// The caller must hold the lock of the shard, as for [`CommitQueue::ticket`].
    pub(crate) fn on_durable(
        &self,
        revision: u64,
        callback: impl FnOnce(Result<(), CommitFailure>) + Send + 'static,
    ) {
        if revision > self.durable() {
            let mut state = self.lock();
            if let Some(batch) = self.batch_of(&mut state, revision) {
                batch.callbacks.push(Box::new(callback));
                return;
            }
        }
        callback(Ok(()));
    }

    /// Returns the ticket of an append that begins after this call, with changes or without. Its
    /// success shows that this server owned the log after the call.
    pub(crate) fn confirm(&self) -> Ticket {
        let mut state = self.lock();
        let Some(batch) = state.queued.back() else {
            let batch = QueuedBatch::default();
            let ticket = Ticket(batch.outcome.subscribe());
            if !state.closing {
                state.queued.push_back(batch);
                let is_awaited = state.awaited.take().is_some();
                drop(state);
                if is_awaited {
                    self.wake.notify_one();
                }
            }
            return ticket;
        };
        // No batch in the queue has begun.
        Ticket(batch.outcome.subscribe())
    }

    /// Returns the number of change sets that wait for a commit.
    pub(crate) fn queued(&self) -> usize {
        self.lock().len()
    }

    /// Blocks until there is a batch to commit, or until nothing was queued for `at_most`.
    ///
    /// After a large batch it waits a little for the next one to fill: see [`GroupCommit`]. The
    /// caller must publish or undo this batch before it takes another one.
    pub(crate) fn take(&self, at_most: Option<Duration>) -> Work {
        let began = Instant::now();
        let mut state = self.lock();
        while state.queued.is_empty() && !state.closing && began.elapsed() < AWAKE {
            drop(state);
            thread::yield_now();
            state = self.lock();
        }
        let group = state.group;
        let patience = group.patience();
        let (mut seen, mut came_at) = (0, began);
        loop {
            let queued = state.len();
            let now = Instant::now();
            if queued > seen {
                (seen, came_at) = (queued, now);
            }
            let until = (came_at + group.stall()).min(began + patience);
            let left = until.saturating_duration_since(now);
            let is_enough = queued >= group.expected || left.is_zero() || state.closing;
            let pause = state.pause(now);
            if is_enough
                && pause.is_none()
                && let Some(batch) = state.queued.pop_front()
            {
                if batch.sets.is_empty() {
                    state.confirmed_at = Some(now);
                }
                let sets = Arc::clone(&batch.sets);
                state.taken = Some(batch);
                state.awaited = None;
                return Work::Commit(sets);
            }
            if state.closing {
                return Work::Close;
            }
            let wait = match (is_enough, pause, at_most) {
                (false, ..) => left,
                (true, Some(pause), _) => pause,
                (true, None, None) => Duration::MAX,
                (true, None, Some(at_most)) if now < began + at_most => began + at_most - now,
                (true, None, Some(_)) => {
                    state.awaited = None;
                    return Work::Idle;
                }
            };
            state.awaited = Some(if is_enough { 1 } else { group.expected });
            let woken = self.wake.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Marks the taken batch as durable after a commit of duration `commit`. Returns its changes, for
    /// [`CommitQueue::announce`], and a function that lets its answers leave.
    pub(crate) fn publish(
        &self,
        sets: Arc<Vec<ChangeSet>>,
        commit: Duration,
    ) -> (Vec<ChangeSet>, impl FnOnce()) {
        self.tell_durable(&sets);
        if let Some(last) = sets.last() {
            self.durable.store(last.last_revision(), Ordering::Release);
        }
        let mut state = self.lock();
        let mut taken = state.taken.take();
        state.group = GroupCommit {
            expected: sets.len() + state.len(),
            commit,
        };
        drop(state);
        if let Some(taken) = &mut taken {
            drop(std::mem::take(&mut taken.sets));
        }
        // The queue had the only other reference.
        let sets = Arc::into_inner(sets).unwrap_or_default();
        let resolve = move || {
            if let Some(taken) = taken {
                taken.resolve(Ok(()));
            }
        };
        (sets, resolve)
    }

    /// Shows the sinks changes that become durable.
    fn tell_durable(&self, sets: &[ChangeSet]) {
        for change in sets.iter().flat_map(|set| &set.changes) {
            self.sinks.iter().for_each(|sink| sink.durable(change));
        }
    }

    /// Passes published changes to the sinks, in the order in which they were taken.
    pub(crate) fn announce(&self, sets: Vec<ChangeSet>) {
        let changes: Vec<LeaseChange> = sets.into_iter().flat_map(|set| set.changes).collect();
        for sink in &self.sinks {
            sink.committed(&changes);
        }
    }

    /// Returns the changes of the taken batch and of everything queued behind it, which may depend
    /// on it. The caller holds the locks of all shards, undoes these changes, and then calls the
    /// returned function.
    pub(crate) fn fail(
        &self,
        sets: Arc<Vec<ChangeSet>>,
        failure: CommitFailure,
    ) -> (Vec<ChangeSet>, impl FnOnce()) {
        let mut state = self.lock();
        let mut failed: Vec<QueuedBatch> = state.taken.take().into_iter().collect();
        failed.extend(state.queued.drain(..));
        // Nothing is taken any more.
        state.closing |= matches!(failure, CommitFailure::NotOwner | CommitFailure::Failed);
        drop(state);
        drop(sets);
        let mut undone = Vec::new();
        for batch in &mut failed {
            undone.extend(Arc::into_inner(std::mem::take(&mut batch.sets)).unwrap_or_default());
        }
        let resolve = move || {
            for batch in failed {
                batch.resolve(Err(failure));
            }
        };
        (undone, resolve)
    }

    /// Lets [`CommitQueue::take`] end after the queued changes. The caller ensures that nothing is
    /// appended from now on.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.wake.notify_all();
    }

    /// Returns the batch that contains this revision; `None` if the revision is durable. The state
    /// is locked, so the taken batch is not published meanwhile.
    fn batch_of<'a>(&self, state: &'a mut State, revision: u64) -> Option<&'a mut QueuedBatch> {
        if revision <= self.durable() {
            return None;
        }
        let mut batches = state.taken.iter_mut().chain(&mut state.queued);
        batches.find(|batch| revision <= batch.last_revision())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the number of queued change sets.
    fn len(&self) -> usize {
        self.queued.iter().map(|batch| batch.sets.len()).sum()
    }

    /// Returns the time for which the next batch must not be taken yet, if there is any: it has no
    /// changes, and another one without changes was taken just before.
    fn pause(&self, now: Instant) -> Option<Duration> {
        if self.closing || !self.queued.front()?.sets.is_empty() {
            return None;
        }
        let every = match self.confirms_all {
            true => CONFIRM_ALL_EVERY,
            false => CONFIRM_EVERY,
        };
        let next = self.confirmed_at? + every;
        (now < next).then(|| next - now)
    }

    /// Queues a change set.
    fn push(&mut self, set: ChangeSet) -> Ticket {
        let mut batch = match self.queued.pop_back() {
            Some(batch) if batch.bytes < BATCH_BYTES => batch,
            full => {
                self.queued.extend(full);
                QueuedBatch::default()
            }
        };
        batch.bytes += set.size();
        // No other reference exists before the batch is taken.
        if let Some(sets) = Arc::get_mut(&mut batch.sets) {
            sets.push(set);
        }
        let ticket = Ticket(batch.outcome.subscribe());
        self.queued.push_back(batch);
        ticket
    }
}

impl QueuedBatch {
    fn last_revision(&self) -> u64 {
        self.sets.last().map_or(0, ChangeSet::last_revision)
    }

    /// Wakes the requests that wait for the batch, and first those that it grants a lease: a hand-over
    /// is complete when the new holder knows of its grant.
    fn resolve(self, outcome: Result<(), CommitFailure>) {
        for callback in self.callbacks {
            callback(outcome);
        }
        self.outcome.send_replace(Some(outcome));
    }
}

impl fmt::Debug for QueuedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sets.iter()).finish()
    }
}

#[cfg(test)]
mod tests;

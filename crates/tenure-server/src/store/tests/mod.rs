//! The store with an engine that a test controls: the times of answers, and the undo of changes.

mod anonymous;
mod deletion;
mod endings;
mod exposed;
mod full_disk;
mod given_up;
mod overview;
mod serving;
mod watching;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tenure_core::Epoch;
use tenure_core::lease::{Acquire, LeaseDuration, LeaseId, Metadata, Operation, State, TermEnd};
use tenure_core::wire::{Code, LeaseView, Problem, Queued};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Store, StoreSetup};
use crate::config::{Limits, StoreConfig};
use crate::engine::{AppendError, Batch, Engine, Loaded, Log};
use crate::model::{ChangeSet, Content, LeaseChange, LeaseKey};
use crate::shares::Tenant;

/// Long enough for every step of a test.
const SOON: Duration = Duration::from_secs(10);

/// Long enough to notice an answer that leaves too early, unless the machine is very busy. On a
/// busy machine a test may pass wrongly, but it never fails wrongly.
const A_MOMENT: Duration = Duration::from_millis(50);

/// An engine that passes every batch to the test, which decides the outcome.
struct Scripted {
    batches: Sender<Vec<LeaseChange>>,
    verdicts: Receiver<Result<(), AppendError>>,
    shelf: Arc<Shelf>,
}

/// How the engine behaves.
#[derive(Debug, Default)]
struct Shelf {
    /// The number of calls of the upkeep.
    upkeeps: AtomicUsize,
    /// The time in milliseconds within which the engine wants its upkeep; zero if it wants none.
    within_ms: AtomicUsize,
    /// Whether the disk fails when the engine is closed.
    fails_at_the_end: AtomicBool,
    /// Whether the engine panics when it commits.
    panics: AtomicBool,
}

/// The test's side of a [`Scripted`] engine.
struct Script {
    batches: Receiver<Vec<LeaseChange>>,
    verdicts: Sender<Result<(), AppendError>>,
    shelf: Arc<Shelf>,
}

impl Log for Scripted {
    fn append(&mut self, _: &Batch, sets: &[ChangeSet]) -> Result<(), AppendError> {
        let changes = sets.iter().flat_map(|set| &set.changes);
        let _ = self.batches.send(changes.cloned().collect());
        // After the end of the test, every batch is committed.
        let verdict = self.verdicts.recv().unwrap_or(Ok(()));
        assert!(!self.shelf.panics.load(Ordering::SeqCst), "planted");
        verdict
    }

    fn confirm(&mut self) -> Result<(), AppendError> {
        Ok(())
    }

    fn upkeep(&mut self) -> Result<(), AppendError> {
        self.shelf.upkeeps.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn upkeep_within(&self) -> Option<Duration> {
        match self.shelf.within_ms.load(Ordering::SeqCst) {
            0 => None,
            within => Some(Duration::from_millis(within as u64)),
        }
    }

    fn close(&mut self) -> Result<(), AppendError> {
        match self.shelf.fails_at_the_end.load(Ordering::SeqCst) {
            true => Err(AppendError::Unknown("fsync: EIO".into())),
            false => Ok(()),
        }
    }
}

impl Script {
    /// Returns the next batch. The batch stays uncommitted until the test gives its verdict.
    fn batch(&self) -> Vec<LeaseChange> {
        self.batches.recv_timeout(SOON).expect("a batch")
    }

    fn decide(&self, verdict: Result<(), AppendError>) {
        self.verdicts.send(verdict).unwrap();
    }

    fn commit(&self) -> Vec<LeaseChange> {
        let batch = self.batch();
        self.decide(Ok(()));
        batch
    }

    fn panic(&self) {
        self.shelf.panics.store(true, Ordering::SeqCst);
        self.decide(Ok(()));
    }

    fn refuse(&self) {
        self.batch();
        self.decide(Err(AppendError::DiskFull("no space".into())));
    }

    fn is_idle(&self) -> bool {
        self.batches.try_recv().is_err()
    }
}

fn scripted() -> (Store, Script) {
    scripted_with(Loaded::default())
}

fn scripted_with(loaded: Loaded) -> (Store, Script) {
    let (batches, shown) = channel();
    let (verdicts, told) = channel();
    let shelf = Arc::default();
    let engine = Scripted {
        batches,
        verdicts: told,
        shelf: Arc::clone(&shelf),
    };
    let engine = Engine::over(Box::new(engine), loaded.revision);
    let store = Store::start(
        loaded,
        Some(engine),
        StoreSetup::with_limits(Limits::default()),
    )
    .unwrap();
    let script = Script {
        batches: shown,
        verdicts,
        shelf,
    };
    (store, script)
}

fn key() -> LeaseKey {
    LeaseKey::of_text("ns/lease")
}

fn id(number: u64) -> LeaseId {
    LeaseId::from_random_bits(0, number)
}

fn queued(number: u64, wait: Duration) -> Queued {
    Queued {
        request: Acquire {
            lease_id: id(number),
            holder: format!("candidate-{number}").parse().unwrap(),
            duration: LeaseDuration::Fixed(Duration::from_secs(60)),
            lock_delay: Duration::ZERO,
            min_epoch: None,
            by_operator: false,
            metadata: Metadata::new(),
        },
        resume: None,
        wait,
        priority: 100,
    }
}

type Answer = JoinHandle<Result<LeaseView, Problem>>;

fn acquire(store: &Store, number: u64, wait: Duration) -> Answer {
    let store = store.clone();
    tokio::spawn(async move { store.acquire(&key(), &queued(number, wait)).await })
}

fn operate(store: &Store, operation: Operation) -> Answer {
    let store = store.clone();
    tokio::spawn(async move { store.operate(&key(), &operation, None).await })
}

fn view(store: &Store) -> Answer {
    let store = store.clone();
    tokio::spawn(async move { store.view(&key()).await })
}

async fn answer(answer: Answer) -> Result<LeaseView, Problem> {
    timeout(SOON, answer).await.expect("an answer").unwrap()
}

async fn refusal(of: Answer) -> Code {
    answer(of).await.unwrap_err().code
}

/// Waits until `count` requests are in the queue.
async fn queue_of(store: &Store, count: usize) {
    let waiting = &store.inner.waiting;
    let until = tokio::time::Instant::now() + SOON;
    while waiting.taken() != count {
        assert!(tokio::time::Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns a store with a lease that candidate 1 holds durably.
async fn held() -> (Store, Script) {
    let (store, script) = scripted();
    let granted = acquire(&store, 1, Duration::ZERO);
    on_engine(&script, |script| script.commit()).await;
    answer(granted).await.unwrap();
    (store, script)
}

/// Runs `talk` on a thread that may block, to exchange messages with the engine's thread. Other
/// tasks of the runtime run meanwhile.
async fn on_engine<T>(script: &Script, talk: impl FnOnce(&Script) -> T) -> T {
    tokio::task::block_in_place(|| talk(script))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_must_not_be_idle_is_called_in_time_without_commits() {
    let (store, script) = scripted();
    // It takes effect with the first commit.
    script.shelf.within_ms.store(5, Ordering::SeqCst);
    let granted = acquire(&store, 1, Duration::ZERO);
    script.commit();
    granted.await.unwrap().unwrap();
    let called = async {
        while script.shelf.upkeeps.load(Ordering::SeqCst) < 20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, called).await.expect("twenty calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_leaves_before_the_state_that_it_saw_is_durable() {
    let (store, script) = scripted();
    let granted = acquire(&store, 1, Duration::ZERO);
    on_engine(&script, Script::batch).await;
    let refused = acquire(&store, 2, Duration::ZERO);
    let read = view(&store);
    let renewed = operate(&store, Operation::Renew(id(1), None));
    let listed = tokio::spawn({
        let store = store.clone();
        async move { store.list("ns", "", None, 10).await }
    });
    let polled = tokio::spawn({
        let store = store.clone();
        async move { store.poll(&Tenant::Unknown, &key(), 0, SOON).await }
    });
    let told = tokio::spawn({
        let store = store.clone();
        async move { store.history(&key(), None).await }
    });
    tokio::time::sleep(A_MOMENT).await;
    let early = [
        granted.is_finished(),
        refused.is_finished(),
        read.is_finished(),
        renewed.is_finished(),
        listed.is_finished(),
        polled.is_finished(),
        told.is_finished(),
    ];
    assert_eq!(early, [false; 7]);

    script.decide(Ok(()));
    assert_eq!(answer(granted).await.unwrap().revision, 1);
    assert_eq!(refusal(refused).await, Code::LeaseHeld);
    assert_eq!(answer(read).await.unwrap().revision, 1);
    assert!(answer(renewed).await.is_ok());
    assert_eq!(listed.await.unwrap().unwrap().leases.len(), 1);
    assert_eq!(polled.await.unwrap().unwrap().revision, 1);
    assert_eq!(told.await.unwrap().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_writes_nothing_and_waits_for_no_disk() {
    let (store, script) = held().await;
    let released = {
        // The engine hangs in the commit of another lease.
        let other = store.clone();
        let other = tokio::spawn(async move {
            let key = LeaseKey::of_text("ns/other");
            other.acquire(&key, &queued(9, Duration::ZERO)).await
        });
        on_engine(&script, Script::batch).await;
        for _ in 0..100 {
            answer(operate(&store, Operation::Renew(id(1), None)))
                .await
                .unwrap();
        }
        assert!(on_engine(&script, Script::is_idle).await);
        script.decide(Ok(()));
        other
    };
    released.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_and_the_grant_to_the_next_are_one_commit() {
    let (store, script) = held().await;
    let next = acquire(&store, 2, SOON);
    queue_of(&store, 1).await;
    let released = operate(&store, Operation::Release(id(1)));
    let batch = on_engine(&script, Script::batch).await;
    let states: Vec<String> = batch.iter().map(holder).collect();
    assert_eq!(states, ["candidate-1", "candidate-2"]);
    tokio::time::sleep(A_MOMENT).await;
    assert!(!next.is_finished() && !released.is_finished());
    script.decide(Ok(()));
    assert_eq!(answer(released).await.unwrap().revision, 2);
    assert_eq!(answer(next).await.unwrap().revision, 3);
}

fn holder(write: &LeaseChange) -> String {
    match &write.content {
        Content::Lease(stored) => stored.grant.as_ref().unwrap().holder.to_string(),
        Content::Deleted(_) => String::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_has_the_end_of_each_term_once_it_is_answered_and_no_undone_end() {
    let (store, script) = held().await;
    let ends = || async {
        let history = store.history(&key(), None).await.unwrap();
        let ends = history.iter().map(|term| (term.holder.clone(), term.end));
        ends.collect::<Vec<_>>()
    };
    let running = |number: u64| (format!("candidate-{number}"), None);
    let released = |number: u64| (format!("candidate-{number}"), Some(TermEnd::Released));
    let undone = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::batch).await;
    script.decide(Err(AppendError::DiskFull("no space".into())));
    assert_eq!(refusal(undone).await, Code::DiskFull);
    assert_eq!(ends().await, [running(1)]);
    for number in 1..=3 {
        let ended = operate(&store, Operation::Release(id(number)));
        on_engine(&script, Script::commit).await;
        answer(ended).await.unwrap();
        assert_eq!(ends().await[0], released(number));
        let granted = acquire(&store, number + 1, Duration::ZERO);
        on_engine(&script, Script::commit).await;
        answer(granted).await.unwrap();
    }
    let expected = [running(4), released(3), released(2), released(1)];
    assert_eq!(ends().await, expected);
}

/// Waits until `revision` has been assigned to a change.
async fn revision_of(store: &Store, revision: u64) {
    let until = tokio::time::Instant::now() + SOON;
    while store.inner.commit_queue.last() < revision {
        assert!(tokio::time::Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_saw_an_undone_change_reads_again() {
    let (store, script) = held().await;
    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::batch).await;
    let read = view(&store);
    let refused = operate(&store, Operation::Renew(id(1), None));
    tokio::time::sleep(A_MOMENT).await;
    script.decide(Err(AppendError::DiskFull("no space".into())));
    assert_eq!(refusal(released).await, Code::DiskFull);
    assert_eq!(
        answer(read).await.unwrap().holder.as_deref(),
        Some("candidate-1")
    );
    assert!(answer(refused).await.is_ok());
}

#[tokio::test]
async fn disconnected_requests_leave_nothing_behind() {
    let store = Store::open(StoreConfig::memory()).unwrap();
    let held = answer(acquire(&store, 1, Duration::ZERO)).await.unwrap();
    let waiters: Vec<Answer> = (2..20)
        .map(|number| acquire(&store, number, SOON))
        .collect();
    let poll = tokio::spawn({
        let store = store.clone();
        async move {
            store
                .poll(&Tenant::Unknown, &key(), held.revision, SOON)
                .await
        }
    });
    queue_of(&store, 19).await;
    poll.abort();
    waiters.iter().for_each(JoinHandle::abort);
    queue_of(&store, 0).await;
    let shard = store.inner.table.lock(&key());
    assert!(shard.get(&key()).unwrap().interest.is_none());
}

/// Panics in the timer's thread for one lease.
pub(super) fn panic_if_planted(key: &LeaseKey) {
    assert!(*key != planted(), "planted in the timer");
}

fn planted() -> LeaseKey {
    LeaseKey::of_text("planted/panic")
}

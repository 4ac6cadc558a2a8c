//! The store over an engine that does what a test wants: what is told when, and what becomes of
//! changes that could not be kept.

mod full_disk;
mod given_up;
mod watching;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::Epoch;
use tenure_core::lease::{Acquire, LeaseDuration, LeaseId, Metadata, Operation, State, TermEnd};
use tenure_core::wire::{Code, LeaseView, Problem, Queued};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Store;
use crate::config::{Limits, StoreConfig};
use crate::engine::{
    AppendError, Batch, Engine, Load, Loaded, Log, OpenError, Progress, TermHistory,
};
use crate::model::{ChangeSet, Content, LeaseChange, LeaseKey, TermRecord};

/// Long enough for anything that happens at all.
const SOON: Duration = Duration::from_secs(10);

/// Long enough to notice an answer that leaves too early, if the machine is not very busy. A test
/// passes wrongly at worst; it never fails wrongly.
const A_MOMENT: Duration = Duration::from_millis(50);

/// An engine that shows every batch and does with it what it is told.
struct Scripted {
    batches: Sender<Vec<LeaseChange>>,
    verdicts: Receiver<Result<(), AppendError>>,
    shelf: Arc<Shelf>,
}

/// The terms that it has committed.
#[derive(Debug, Default)]
struct Shelf {
    terms: Mutex<Vec<TermRecord>>,
    /// A test that holds it makes readers wait.
    reading: Mutex<()>,
    /// How many have come to read.
    asked: AtomicUsize,
    /// How many parts of what is done at rest are left.
    parts_of_rest: AtomicUsize,
    /// Whether the disk fails when the engine is closed.
    fails_at_the_end: AtomicBool,
    /// Whether the engine panics when it commits.
    panics: AtomicBool,
}

/// The test's end of a [`Scripted`].
struct Script {
    batches: Receiver<Vec<LeaseChange>>,
    verdicts: Sender<Result<(), AppendError>>,
    shelf: Arc<Shelf>,
}

impl Log for Scripted {
    fn load_tables(&mut self) -> Result<Loaded, OpenError> {
        Ok(Loaded::default())
    }

    fn read_batches(&mut self, _: u64) -> Result<Vec<Batch>, OpenError> {
        Ok(Vec::new())
    }

    fn damaged(&self, detail: String) -> OpenError {
        unreachable!("{detail}")
    }

    fn begin(&mut self, _: &Loaded, _: u64) -> Result<(), OpenError> {
        Ok(())
    }

    fn append(&mut self, _: &Batch, sets: &[ChangeSet]) -> Result<(), AppendError> {
        let changes = || sets.iter().flat_map(|set| &set.changes);
        let _ = self.batches.send(changes().cloned().collect());
        // A test that has ended lets everything through.
        let verdict = self.verdicts.recv().unwrap_or(Ok(()));
        assert!(!self.shelf.panics.load(Ordering::SeqCst), "planted");
        verdict?;
        let recorded = changes().filter_map(|change| change.term.as_deref());
        let mut terms = self.shelf.terms.lock().unwrap();
        terms.extend(recorded.cloned());
        Ok(())
    }

    fn checkpoint(&mut self, load: Load) -> Result<Progress, AppendError> {
        if load == Load::Busy {
            return Ok(Progress::More);
        }
        let left = &self.shelf.parts_of_rest;
        match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        }) {
            Ok(2..) => Ok(Progress::More),
            _ => Ok(Progress::Done),
        }
    }

    fn close(&mut self) -> Result<(), AppendError> {
        match self.shelf.fails_at_the_end.load(Ordering::SeqCst) {
            true => Err(AppendError::Unknown("fsync: EIO".into())),
            false => Ok(()),
        }
    }

    fn terms(&self) -> Arc<dyn TermHistory> {
        Arc::clone(&self.shelf) as Arc<dyn TermHistory>
    }
}

impl TermHistory for Shelf {
    fn terms(&self, _: &LeaseKey, last: Epoch, most: usize) -> Result<Vec<TermRecord>, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let _reading = self.reading.lock().unwrap();
        let terms = self.terms.lock().unwrap();
        let seen = terms.iter().rev().filter(|term| term.epoch <= last);
        Ok(seen.take(most).cloned().collect())
    }
}

impl Script {
    /// The next batch; it stays uncommitted until the verdict is given.
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
    let (batches, shown) = channel();
    let (verdicts, told) = channel();
    let shelf = Arc::default();
    let engine = Scripted {
        batches,
        verdicts: told,
        shelf: Arc::clone(&shelf),
    };
    let store = Store::start(
        Loaded::default(),
        Some(Engine::over(Box::new(engine), 0)),
        Limits::default(),
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
            metadata: Metadata::new(),
        },
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

/// Waits until so many are in the queue.
async fn queue_of(store: &Store, count: usize) {
    let waiting = &store.inner.waiting;
    let until = tokio::time::Instant::now() + SOON;
    while waiting.load(Ordering::Relaxed) != count {
        assert!(tokio::time::Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A store whose lease candidate 1 holds, durably.
async fn held() -> (Store, Script) {
    let (store, script) = scripted();
    let granted = acquire(&store, 1, Duration::ZERO);
    on_engine(&script, |script| script.commit()).await;
    answer(granted).await.unwrap();
    (store, script)
}

/// Talks to the engine's thread without blocking the runtime for long: answers go on meanwhile.
async fn on_engine<T>(script: &Script, talk: impl FnOnce(&Script) -> T) -> T {
    tokio::task::block_in_place(|| talk(script))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_at_rest_is_done_part_by_part_until_nothing_is_left() {
    let (store, script) = scripted();
    script.shelf.parts_of_rest.store(3, Ordering::SeqCst);
    let granted = acquire(&store, 1, Duration::ZERO);
    script.commit();
    granted.await.unwrap().unwrap();
    let all_done = async {
        while script.shelf.parts_of_rest.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, all_done).await.expect("all parts");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_leaves_before_what_it_rests_on_is_durable() {
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
        async move { store.poll(&key(), 0, SOON).await }
    });
    let told = tokio::spawn({
        let store = store.clone();
        async move { store.history(&key()).await }
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
    assert_eq!(told.await.unwrap().unwrap().terms.len(), 1);
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
async fn on_a_full_disk_nothing_has_happened_and_renewals_go_on() {
    let (store, script) = held().await;
    let next = acquire(&store, 2, SOON);
    queue_of(&store, 1).await;

    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::refuse).await;
    assert_eq!(refusal(released).await, Code::DiskFull);
    assert_eq!(refusal(next).await, Code::DiskFull);
    // It is as it was: held by the first, who may renew.
    let renewed = answer(operate(&store, Operation::Renew(id(1), None))).await;
    assert_eq!(renewed.unwrap().revision, 1);
    assert_eq!(
        answer(view(&store)).await.unwrap().holder.as_deref(),
        Some("candidate-1")
    );

    // Once there is space it works again, and revisions and epochs go on.
    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::commit).await;
    assert_eq!(answer(released).await.unwrap().revision, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_a_lease_that_has_expired_is_shown_so_and_stays_as_it_was() {
    let (store, script) = scripted();
    let brief = LeaseDuration::Fixed(Duration::from_secs(1));
    let granted = tokio::spawn({
        let (store, mut queued) = (store.clone(), queued(1, Duration::ZERO));
        queued.request.duration = brief;
        async move { store.acquire(&key(), &queued).await }
    });
    let epoch = epoch_of(&on_engine(&script, Script::commit).await[0]);
    answer(granted).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_050)).await;

    let seen = view(&store);
    on_engine(&script, Script::refuse).await;
    let seen = answer(seen).await.unwrap();
    // Its end has no revision yet, and nothing was granted.
    assert_eq!((seen.state, seen.revision), (State::Expired, 1));
    let polled = tokio::spawn({
        let store = store.clone();
        async move { store.poll(&key(), 1, Duration::from_millis(300)).await }
    });
    on_engine(&script, Script::refuse).await;
    let polled = answer(polled).await.unwrap();
    assert_eq!((polled.state, polled.revision), (State::Expired, 1));
    assert!(script.is_idle(), "a poll does not try in a loop");
    let verified = tokio::spawn({
        let store = store.clone();
        let epoch = Epoch::new(epoch).unwrap();
        async move { store.verify(&key(), epoch).await }
    });
    on_engine(&script, Script::refuse).await;
    assert!(!verified.await.unwrap().unwrap().current);
    let listed = tokio::spawn({
        let store = store.clone();
        let namespace = key().namespace().to_owned();
        async move { store.list(&namespace, "", None, 10).await }
    });
    on_engine(&script, Script::refuse).await;
    assert_eq!(listed.await.unwrap().unwrap().leases, [seen]);
    let told = tokio::spawn({
        let store = store.clone();
        async move { store.history(&key()).await }
    });
    on_engine(&script, Script::refuse).await;
    let terms = told.await.unwrap().unwrap().terms;
    let terms: Vec<_> = terms
        .iter()
        .map(|term| (term.epoch, term.end, &term.ended_at))
        .collect();
    assert_eq!(
        terms,
        [(epoch, None, &None)],
        "no end that a restart takes back"
    );

    // Once there is space its end is a step like any other, and told once.
    let seen = view(&store);
    let noted = on_engine(&script, Script::commit).await[0].term.clone();
    assert_eq!(
        noted.unwrap().ended.map(|(end, _)| end),
        Some(TermEnd::Expired)
    );
    assert!(answer(seen).await.unwrap().revision > 1);
    let terms = store.history(&key()).await.unwrap().terms;
    assert_eq!(terms.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_term_is_committed_with_the_step_that_ends_it_or_undone_with_it() {
    let (store, script) = held().await;
    let released = operate(&store, Operation::Release(id(1)));
    let batch = on_engine(&script, Script::batch).await;
    let noted = batch[0].term.as_ref().unwrap();
    assert_eq!(
        (noted.epoch.get(), noted.ended.map(|(end, _)| end)),
        (epoch_of(&batch[0]), Some(TermEnd::Released))
    );
    let told = tokio::spawn({
        let store = store.clone();
        async move { store.history(&key()).await }
    });
    tokio::time::sleep(A_MOMENT).await;
    assert!(!told.is_finished());
    script.decide(Err(AppendError::DiskFull("no space".into())));
    assert_eq!(refusal(released).await, Code::DiskFull);
    // The term goes on, and so says its history.
    let history = told.await.unwrap().unwrap();
    let terms: Vec<_> = history.terms.iter().map(|term| term.end).collect();
    assert_eq!(terms, [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_is_that_of_the_moment_at_which_the_lease_was_looked_at() {
    let (store, script) = held().await;
    let told = {
        let _reading = script.shelf.reading.lock().unwrap();
        let told = tokio::spawn({
            let store = store.clone();
            async move { store.history(&key()).await }
        });
        tokio::task::block_in_place(|| {
            let until = std::time::Instant::now() + SOON;
            while script.shelf.asked.load(Ordering::Relaxed) == 0 {
                assert!(std::time::Instant::now() < until);
                std::thread::sleep(Duration::from_millis(1));
            }
            // It has looked at the lease and waits for the disk, while terms end and begin.
            let runtime = tokio::runtime::Handle::current();
            for number in 1..=3 {
                let released = operate(&store, Operation::Release(id(number)));
                script.commit();
                runtime.block_on(answer(released)).unwrap();
                let granted = acquire(&store, number + 1, Duration::ZERO);
                script.commit();
                runtime.block_on(answer(granted)).unwrap();
            }
        });
        told
    };
    let history = told.await.unwrap().unwrap();
    let terms: Vec<_> = history.terms.iter().map(|term| &*term.holder).collect();
    assert_eq!(terms, ["candidate-1"]);
    assert_eq!(history.terms[0].end, None);
    let history = store.history(&key()).await.unwrap();
    let ends: Vec<_> = history.terms.iter().map(|term| term.end).collect();
    assert_eq!(
        ends,
        [
            None,
            Some(TermEnd::Released),
            Some(TermEnd::Released),
            Some(TermEnd::Released)
        ]
    );
}

fn epoch_of(write: &LeaseChange) -> u64 {
    match &write.content {
        Content::Lease(stored) => stored.grant.as_ref().unwrap().epoch.get(),
        Content::Deleted(_) => 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_queued_behind_an_undone_change_is_undone_with_it() {
    let (store, script) = scripted();
    let granted = acquire(&store, 1, Duration::ZERO);
    on_engine(&script, Script::batch).await;
    // These rest on the grant, and are queued behind it.
    let described = operate(
        &store,
        Operation::SetMetadata(id(1), Metadata::from([("a".into(), "b".into())])),
    );
    revision_of(&store, 2).await;
    let released = operate(&store, Operation::Release(id(1)));
    revision_of(&store, 3).await;
    script.decide(Err(AppendError::DiskFull("no space".into())));
    assert_eq!(refusal(granted).await, Code::DiskFull);
    assert_eq!(refusal(described).await, Code::DiskFull);
    assert_eq!(refusal(released).await, Code::DiskFull);
    // The lease was never acquired.
    assert_eq!(refusal(view(&store)).await, Code::UnknownLease);
    assert!(store.inner.table.lock(&key()).is_empty());
    assert!(on_engine(&script, Script::is_idle).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_undone_changes_of_all_leases_are_undone_from_the_last_to_the_first() {
    let (store, script) = held().await;
    let metadata = Metadata::from([("a".into(), "b".into())]);
    let described = operate(&store, Operation::SetMetadata(id(1), metadata));
    on_engine(&script, Script::batch).await;
    let released = operate(&store, Operation::Release(id(1)));
    let other = LeaseKey::of_text("ns/other");
    let acquired = tokio::spawn({
        let (store, other) = (store.clone(), other.clone());
        async move { store.acquire(&other, &queued(9, Duration::ZERO)).await }
    });
    revision_of(&store, 4).await;
    script.decide(Err(AppendError::DiskFull("no space".into())));
    assert_eq!(refusal(described).await, Code::DiskFull);
    assert_eq!(refusal(released).await, Code::DiskFull);
    assert_eq!(refusal(acquired).await, Code::DiskFull);

    let view = answer(view(&store)).await.unwrap();
    assert_eq!(
        (view.holder.as_deref(), view.revision),
        (Some("candidate-1"), 1)
    );
    assert_eq!(view.metadata, Some(Metadata::new()));
    assert_eq!(
        store.view(&other).await.unwrap_err().code,
        Code::UnknownLease
    );
}

/// Waits until so many revisions are handed out.
async fn revision_of(store: &Store, revision: u64) {
    let until = tokio::time::Instant::now() + SOON;
    while store.inner.commit_queue.last() < revision {
        assert!(tokio::time::Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_saw_an_undone_change_looks_again() {
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

#[tokio::test(flavor = "multi_thread")]
async fn after_an_io_error_nothing_is_written_and_everybody_is_told() {
    let (store, script) = held().await;
    let next = acquire(&store, 2, SOON);
    queue_of(&store, 1).await;
    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::batch).await;
    script.decide(Err(AppendError::Unknown("fsync: EIO".into())));
    assert_eq!(refusal(released).await, Code::EngineUnavailable);
    assert_eq!(refusal(next).await, Code::EngineUnavailable);
    timeout(SOON, store.failed()).await.unwrap();
    assert_eq!(
        refusal(acquire(&store, 3, Duration::ZERO)).await,
        Code::EngineUnavailable
    );
    assert_eq!(refusal(view(&store)).await, Code::EngineUnavailable);
    assert!(store.has_failed());
    assert!(on_engine(&script, Script::is_idle).await);
    // Closing does not hang on the thread that has ended.
    tokio::task::block_in_place(|| store.close());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_is_not_told_before_it_is_durable_nor_forgotten_if_undone() {
    let (store, script) = held().await;
    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::commit).await;
    answer(released).await.unwrap();

    let delete = || {
        let store = store.clone();
        tokio::spawn(async move { store.delete(&key()).await })
    };
    let undone = delete();
    on_engine(&script, Script::batch).await;
    let read = view(&store);
    tokio::time::sleep(A_MOMENT).await;
    assert!(!read.is_finished());
    script.decide(Err(AppendError::DiskFull("no space".into())));
    assert_eq!(undone.await.unwrap().unwrap_err().code, Code::DiskFull);
    assert!(answer(read).await.is_ok());

    let deleted = delete();
    on_engine(&script, Script::commit).await;
    deleted.await.unwrap().unwrap();
    assert_eq!(refusal(view(&store)).await, Code::UnknownLease);
    assert!(store.inner.table.lock(&key()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_store_commits_what_is_queued_and_takes_nothing_more() {
    let (store, script) = scripted();
    let granted = acquire(&store, 1, Duration::ZERO);
    on_engine(&script, Script::batch).await;
    let closing = tokio::task::spawn_blocking({
        let store = store.clone();
        move || store.close()
    });
    tokio::time::sleep(A_MOMENT).await;
    assert!(!closing.is_finished());
    script.decide(Ok(()));
    closing.await.unwrap();
    answer(granted).await.unwrap();
    assert_eq!(
        refusal(operate(&store, Operation::Renew(id(1), None))).await,
        Code::Stopping
    );
}

#[tokio::test]
async fn nothing_is_left_of_requests_that_went_away() {
    let store = Store::open(StoreConfig::memory()).unwrap();
    let held = answer(acquire(&store, 1, Duration::ZERO)).await.unwrap();
    let waiters: Vec<Answer> = (2..20)
        .map(|number| acquire(&store, number, SOON))
        .collect();
    let poll = tokio::spawn({
        let store = store.clone();
        async move { store.poll(&key(), held.revision, SOON).await }
    });
    queue_of(&store, 19).await;
    poll.abort();
    waiters.iter().for_each(JoinHandle::abort);
    queue_of(&store, 0).await;
    let shard = store.inner.table.lock(&key());
    assert!(shard.get(&key()).unwrap().interest.is_none());
}

#[tokio::test]
async fn a_lease_made_again_is_numbered_above_what_was_deleted() {
    // Far ahead of the clock, as after the clock was set back.
    let far = |ahead: u64| Epoch::new(Epoch::MAX.get() - ahead);
    let loaded = Loaded {
        floor: far(100),
        ..Loaded::default()
    };
    let store = Store::start(loaded, None, Limits::default()).unwrap();
    let view = answer(acquire(&store, 1, Duration::ZERO)).await.unwrap();
    assert_eq!(view.epoch, far(99).map(Epoch::get));
    answer(operate(&store, Operation::Release(id(1))))
        .await
        .unwrap();
    store.delete(&key()).await.unwrap();
    let view = answer(acquire(&store, 2, Duration::ZERO)).await.unwrap();
    assert_eq!(view.epoch, far(98).map(Epoch::get));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_brings_no_id_back_whose_term_has_ended() {
    let (store, script) = held().await;
    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::commit).await;
    answer(released).await.unwrap();
    let delete = || {
        let store = store.clone();
        tokio::spawn(async move { store.delete(&key()).await })
    };
    let deleted = delete();
    on_engine(&script, Script::commit).await;
    deleted.await.unwrap().unwrap();
    assert_eq!(refusal(view(&store)).await, Code::UnknownLease);
    for _ in 0..3 {
        let late = acquire(&store, 1, Duration::ZERO);
        assert_eq!(refusal(late).await, Code::LeaseIdRetired);
        assert_eq!(refusal(view(&store)).await, Code::UnknownLease);
    }
    assert!(store.inner.table.lock(&key()).is_empty());

    // The grant to another id writes the whole list, and an undone one keeps it.
    let next = acquire(&store, 2, Duration::ZERO);
    on_engine(&script, Script::refuse).await;
    assert_eq!(refusal(next).await, Code::DiskFull);
    let next = acquire(&store, 2, Duration::ZERO);
    let batch = on_engine(&script, Script::commit).await;
    answer(next).await.unwrap();
    let Content::Lease(stored) = &batch[0].content else {
        panic!("{batch:?}");
    };
    assert_eq!(stored.retired, [id(1)]);
    let late = acquire(&store, 1, Duration::ZERO);
    assert_eq!(refusal(late).await, Code::LeaseIdRetired);

    // Over a second deletion, too.
    let released = operate(&store, Operation::Release(id(2)));
    on_engine(&script, Script::commit).await;
    answer(released).await.unwrap();
    let deleted = delete();
    on_engine(&script, Script::commit).await;
    deleted.await.unwrap().unwrap();
    for number in [1, 2] {
        let late = acquire(&store, number, Duration::ZERO);
        assert_eq!(refusal(late).await, Code::LeaseIdRetired);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_engine_failed_ends_with_an_error() {
    let (store, script) = scripted();
    let server = crate::Server::bind(store.clone(), "127.0.0.1:0".parse().unwrap()).unwrap();
    let serving = tokio::spawn(server.serve(std::future::pending()));
    let granted = acquire(&store, 1, Duration::ZERO);
    on_engine(&script, Script::batch).await;
    script.decide(Err(AppendError::Unknown("fsync: EIO".into())));
    assert_eq!(refusal(granted).await, Code::EngineUnavailable);
    let ended = timeout(SOON, serving).await.unwrap().unwrap();
    assert!(matches!(ended, Err(crate::ServeError::EngineFailed)));
}

/// Panics in the timer's thread, for one lease.
pub(super) fn panic_if_planted(key: &LeaseKey) {
    assert!(*key != planted(), "planted in the timer");
}

fn planted() -> LeaseKey {
    LeaseKey::of_text("planted/panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_timer_panicked_ends_with_an_error_and_tells_who_waits() {
    let store = Store::open(StoreConfig::memory()).unwrap();
    let server = crate::Server::bind(store.clone(), "127.0.0.1:0".parse().unwrap()).unwrap();
    let serving = tokio::spawn(server.serve(std::future::pending()));
    let mut short = queued(1, Duration::ZERO);
    short.request.duration = LeaseDuration::Fixed(Duration::from_secs(1));
    store.acquire(&planted(), &short).await.unwrap();
    let waits = store.acquire(&planted(), &queued(2, SOON)).await;
    assert!(waits.is_err(), "{waits:?}");
    let ended = timeout(SOON, serving).await.unwrap().unwrap();
    assert!(matches!(ended, Err(crate::ServeError::EngineFailed)));
    let refused = store.acquire(&key(), &queued(3, Duration::ZERO)).await;
    assert_eq!(refused.unwrap_err().code, Code::EngineUnavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_whose_engine_panics_acknowledges_nothing_more() {
    let (store, script) = scripted();
    let granted = acquire(&store, 1, Duration::ZERO);
    on_engine(&script, Script::batch).await;
    script.panic();
    assert_eq!(refusal(granted).await, Code::EngineUnavailable);
    timeout(SOON, store.failed()).await.unwrap();
    let refused = acquire(&store, 2, Duration::ZERO);
    assert_eq!(refusal(refused).await, Code::EngineUnavailable);
    timeout(SOON, tokio::task::spawn_blocking(move || store.close()))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_engine_fails_while_it_is_closed_ends_with_an_error() {
    for fails in [false, true] {
        let (store, script) = scripted();
        script.shelf.fails_at_the_end.store(fails, Ordering::SeqCst);
        let server = crate::Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
        let ended = timeout(SOON, server.serve(std::future::ready(()))).await;
        assert_eq!(ended.unwrap().is_err(), fails);
    }
}

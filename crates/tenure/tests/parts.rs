//! The parts of a leader's task: the lease is released only after all of them have ended.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tenure::testing::TestStore;
use tenure::{Candidate, Config, EndReason, Epoch, Leadership, OnOverrun};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

const fn s(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A flag that a blocked part waits for.
#[derive(Clone, Default)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Waits for the flag, or until a failed test has ended long ago.
    fn wait(&self) {
        let begin = Instant::now();
        while !self.0.load(Ordering::SeqCst) && begin.elapsed() < s(60) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A candidate in a term whose task has started parts.
struct Led {
    store: TestStore,
    shutdown: Option<oneshot::Sender<()>>,
    run: JoinHandle<()>,
    leadership: Leadership,
    overruns: mpsc::UnboundedReceiver<Epoch>,
}

impl Led {
    /// Leads with a task that calls `start` and then waits until it must stop.
    async fn start(start: impl Fn(&Leadership) + Send + Sync + 'static) -> Self {
        let store = TestStore::start().unwrap();
        let (overran, overruns) = mpsc::unbounded_channel();
        let policy = OnOverrun::Call(Arc::new(move |epoch| overran.send(epoch).unwrap()));
        let candidate = store.candidate(config("one").with_on_overrun(policy));
        let (shutdown, stop) = oneshot::channel();
        let (began, mut terms) = mpsc::unbounded_channel();
        let start = Arc::new(start);
        let run = tokio::spawn(async move {
            let stop = async { drop(stop.await) };
            let task = |leadership: Leadership| {
                let (start, began) = (start.clone(), began.clone());
                async move {
                    start(&leadership);
                    began.send(leadership.clone()).unwrap();
                    leadership.lost().await;
                }
            };
            candidate.run_while_leader(stop, task).await.unwrap();
        });
        Self {
            store,
            shutdown: Some(shutdown),
            run,
            leadership: terms.recv().await.unwrap(),
            overruns,
        }
    }

    fn holder(&self) -> Option<String> {
        self.store.lease(&"a".parse().unwrap()).unwrap().holder
    }
}

fn config(candidate: &str) -> Config {
    Config::new("a".parse().unwrap()).with_candidate(candidate.parse().unwrap())
}

/// The name of a kind of parts, and a function that begins one.
type Blocking = (&'static str, fn(&Leadership, Gate));

/// Starts a part of each kind that runs until the gate opens, whatever happens.
fn blocking_parts() -> [Blocking; 3] {
    [
        ("hold()", |leadership, gate| {
            let hold = leadership.hold().unwrap();
            thread::spawn(move || {
                gate.wait();
                drop(hold);
            });
        }),
        ("spawn()", |leadership, gate| {
            drop(leadership.spawn(async move { gate.wait() }));
        }),
        ("spawn_blocking()", |leadership, gate| {
            drop(leadership.spawn_blocking(move |_| gate.wait()));
        }),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_a_shutdown_the_lease_is_renewed_until_each_part_has_ended_and_then_released() {
    for (kind, begin) in blocking_parts() {
        let gate = Gate::default();
        let of_part = gate.clone();
        let mut led = Led::start(move |leadership| begin(leadership, of_part.clone())).await;
        let two = led.store.candidate(config("two"));
        let next = tokio::spawn(async move { two.campaign().await.map(|it| it.epoch()) });
        drop(led.shutdown.take());
        // Far longer than the lease duration.
        led.store.advance(s(60)).await;
        assert_eq!(led.holder().as_deref(), Some("one"), "{kind}");
        assert!(led.leadership.is_valid() && !next.is_finished() && !led.run.is_finished());
        gate.open();
        led.store.advance_until(&mut led.run).await.unwrap();
        let epoch = led.store.advance_until(next).await.unwrap().unwrap();
        assert!(epoch > led.leadership.epoch());
        // While the lease was renewed no other candidate could lead, so the policy has not acted.
        assert_eq!(led.overruns.try_recv().ok(), None, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_part_that_outlives_a_lost_lease_is_an_overrun_before_the_lease_expires() {
    for (kind, begin) in blocking_parts() {
        let gate = Gate::default();
        let of_part = gate.clone();
        let mut led = Led::start(move |leadership| begin(leadership, of_part.clone())).await;
        led.store.set_reachable(false);
        // The term began less than a renew interval ago, so the lease lasts for 15 s at most.
        led.store.advance(Duration::from_millis(14_200)).await;
        assert_eq!(led.overruns.try_recv().ok(), None, "{kind}");
        led.store.advance(Duration::from_millis(100)).await;
        let epoch = led.leadership.epoch();
        assert_eq!(led.overruns.recv().await, Some(epoch), "{kind}");
        assert_eq!(led.holder().as_deref(), Some("one"), "{kind}");
        gate.open();
        led.run.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn futures_are_aborted_with_the_task_and_waiting_ones_are_no_overrun() {
    let (sender, mut handles) = mpsc::unbounded_channel();
    let mut led = Led::start(move |leadership| {
        let handle = leadership.spawn(pending::<()>());
        sender.send(handle).unwrap();
    })
    .await;
    // Also after a suspension, which leaves no allowance.
    led.store.jump(s(3_600)).await;
    let aborted = handles.recv().await.unwrap();
    assert_eq!(aborted.await.unwrap(), None);
    led.store.advance(s(30)).await;
    assert_eq!(led.overruns.try_recv().ok(), None);
    assert_eq!(led.leadership.lost().await, EndReason::Suspended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn when_the_task_returns_its_other_parts_are_asked_to_stop_and_end_the_term() {
    let store = TestStore::start().unwrap();
    let candidate = store.candidate(config("one"));
    let task = |leadership: Leadership| async move {
        let handle = leadership.spawn_blocking(|leadership| {
            while !leadership.cancellation().is_cancelled() {
                thread::sleep(Duration::from_millis(1));
            }
        });
        drop(handle);
        drop(leadership.spawn({
            let leadership = leadership.clone();
            async move { leadership.lost().await }
        }));
    };
    let mut term = tokio::spawn(async move { candidate.run_one_term(pending(), task).await });
    let ended = store.advance_until(&mut term).await.unwrap().unwrap();
    assert_eq!(ended.unwrap().reason, EndReason::TaskReturned);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn holds_begin_until_the_request_to_stop_and_other_parts_until_the_abort() {
    let store = TestStore::start().unwrap();
    let candidate = store.candidate(config("one"));
    let guard = candidate.campaign().await.unwrap();
    let leadership = guard.clone();
    drop(leadership.hold().unwrap());

    leadership.resign();
    leadership.lost().await;
    assert!(leadership.is_valid() && leadership.hold().is_err());
    // A task may record its position.
    assert_eq!(leadership.spawn(async { 1 }).await.unwrap(), Some(1));
    assert_eq!(leadership.spawn_blocking(|_| 2).await.unwrap(), 2);

    store.advance(s(5)).await;
    assert_eq!(leadership.spawn(async { 1 }).await.unwrap(), None);
    let refused = leadership.spawn_blocking(|_| 2).await;
    assert!(refused.unwrap_err().is_cancelled());

    drop(guard);
    store.advance(s(1)).await;
    assert!(leadership.hold().is_err());
    assert_eq!(leadership.spawn(async { 1 }).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_candidate_whose_run_is_dropped_holds_the_lease_until_its_parts_have_ended() {
    let store = TestStore::start().unwrap();
    let candidate = Arc::new(store.candidate(config("one")));
    let gate = Gate::default();
    let (began, mut begins) = mpsc::unbounded_channel();
    let run = |candidate: Arc<Candidate>| {
        let (gate, began) = (gate.clone(), began.clone());
        tokio::spawn(async move {
            let task = |leadership: Leadership| {
                let (gate, began) = (gate.clone(), began.clone());
                async move {
                    drop(leadership.spawn_blocking(move |_| gate.wait()));
                    began.send(leadership.epoch()).unwrap();
                    pending::<()>().await;
                }
            };
            candidate.run_while_leader(pending(), task).await
        })
    };
    let first = run(candidate.clone());
    let epoch = begins.recv().await.unwrap();
    first.abort();
    // The task is told to stop, and aborted after its grace. The next run waits for the closure.
    let next = run(candidate);
    store.advance(s(60)).await;
    let lease = store.lease(&"a".parse().unwrap()).unwrap();
    assert_eq!(lease.epoch, Some(epoch.get()));
    assert!(begins.try_recv().is_err());
    gate.open();
    let second = store.advance_until(begins.recv()).await.unwrap();
    assert!(second > epoch);
    next.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_test_kit_reports_an_overrun_and_does_not_end_the_test() {
    let store = TestStore::start().unwrap();
    let candidate = store.candidate(config("one").with_on_overrun(OnOverrun::Exit));
    let guard = candidate.campaign().await.unwrap();
    store.set_reachable(false);
    store.advance(s(20)).await;
    assert_eq!(candidate.metrics().overruns, 1);
    drop(guard);
}

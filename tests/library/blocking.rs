//! Tasks that block the async runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use tenure::observe::Observed;
use tenure::{Candidate, EndReason, Leadership};

use crate::world::{ELECTION, World, long, ms, timings};

#[tokio::test(flavor = "current_thread")]
async fn a_task_that_blocks_its_runtime_keeps_its_lease() {
    let world = World::start();
    let timings = timings(1500, 300, 1000, 300);
    let config = world.config("a").with_timings(timings);
    let candidate = Candidate::start(config).await.unwrap();
    // The observer opens connections on this runtime, which is blocked below. No renewal may use
    // them.
    let mut observer = candidate.observe();
    assert_eq!(observer.next().await, Observed::NoLeader);
    let client = world.client.clone();

    let task = |leadership: Leadership| {
        let client = client.clone();
        async move {
            let epoch = leadership.epoch().get();
            // Another thread reads the lease while this one, the only one of the runtime, is
            // blocked.
            let done = Arc::new(AtomicBool::new(false));
            let asking = thread::spawn({
                let done = done.clone();
                move || {
                    let runtime = tokio::runtime::Builder::new_current_thread();
                    let runtime = { runtime }.enable_all().build().unwrap();
                    let election = ELECTION.parse().unwrap();
                    let mut epochs = Vec::new();
                    while !done.load(Ordering::SeqCst) {
                        let lease = runtime.block_on(client.lease(&election)).unwrap();
                        epochs.push(lease.unwrap().epoch);
                        thread::sleep(ms(5));
                    }
                    epochs
                }
            });
            let began = Instant::now();
            while began.elapsed() < 3 * timings.lease_duration() {
                thread::sleep(ms(10));
                assert!(leadership.is_valid(), "lost after {:?}", began.elapsed());
            }
            done.store(true, Ordering::SeqCst);
            let epochs = asking.join().unwrap();
            assert!(epochs.len() > 10);
            assert!(epochs.iter().all(|seen| *seen == Some(epoch)), "{epochs:?}");
            leadership.check().map(|_| ())
        }
    };
    let term = candidate.run_one_term(std::future::pending(), task).await;
    let term = term.unwrap().unwrap();
    assert_eq!((term.reason, term.error), (EndReason::TaskReturned, None));
}

#[tokio::test(flavor = "current_thread")]
async fn connections_of_a_blocked_runtime_are_not_used_to_renew() {
    let world = World::start();
    let candidate = world
        .config("a")
        .with_timings(timings(3000, 300, 2000, 500));
    let candidate = Candidate::start(candidate).await.unwrap();
    // Leaves an idle connection behind that only this runtime can poll.
    assert_eq!(candidate.observe().next().await, Observed::NoLeader);
    let guard = candidate.campaign().await.unwrap();
    let began = Instant::now();
    while began.elapsed() < ms(1500) {
        assert!(!guard.is_at_risk(), "a renewal failed");
        thread::sleep(ms(1));
    }
}

#[test]
fn dropping_the_runtime_ends_the_term_and_releases_the_lease() {
    let world = World::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = world.config("a").with_timings(long());
    let candidate = runtime.block_on(Candidate::start(config)).unwrap();
    let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let task = |leadership: Leadership| async move {
        began.send(leadership).unwrap();
        std::future::pending::<()>().await;
    };
    let leadership = runtime.block_on(async {
        tokio::select! {
            ended = candidate.run_one_term(std::future::pending(), task) => panic!("{ended:?}"),
            leadership = begun.recv() => leadership.unwrap(),
        }
    });
    // The run was dropped, and its task is cancelled. The task does not stop, and is dropped with
    // its runtime.
    drop(candidate);
    drop(runtime);
    let asking = tokio::runtime::Runtime::new().unwrap();
    asking.block_on(world.released());
    assert!(!leadership.is_valid());
}

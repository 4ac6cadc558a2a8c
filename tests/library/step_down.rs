//! The stages of a step-down: a task is cancelled, then aborted, then an overrun; the lease is
//! released after all of them.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use tenure::{Candidate, EndReason, Leadership, OnOverrun};
use tenure_tests::proxy::ProxyMode;
use tenure_tests::store::endpoint;
use tenure_tests::wait_until;

use crate::world::{TaskRuns, World, brisk, long, ms, stop_when_lost, timings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_ignores_its_end_is_aborted_before_the_lease_ends() {
    let world = World::start();
    let proxy = world.proxy().await;
    let candidate = world.candidate_behind(&proxy, "a").await;
    let runs = TaskRuns::default();
    let task = |leadership: Leadership| {
        let running = runs.begin(&leadership);
        async move {
            let _running = running;
            pending::<()>().await;
        }
    };
    let fail = async {
        runs.begun(1).await;
        proxy.set(ProxyMode::Hang);
        world.earliest_expiry().await
    };
    let (term, expiry) = tokio::join!(candidate.run_one_term(pending(), task), fail);
    let term = term.unwrap().unwrap();
    assert_eq!(term.reason, EndReason::RenewDeadline);
    // The term ends after its task.
    let gone = runs.all()[0].ended.unwrap();
    assert!(gone < expiry, "{:?} too late", gone - expiry);
}

/// A candidate in a term, whose task blocks its thread until the test ends that.
struct BlockedCandidate {
    candidate: Arc<Candidate>,
    runs: TaskRuns,
    free: Arc<AtomicBool>,
    overruns: mpsc::Receiver<(u64, Option<String>)>,
    run: tokio::task::JoinHandle<()>,
}

impl BlockedCandidate {
    async fn start(config: tenure::Config) -> Self {
        let (runs, free) = (TaskRuns::default(), Arc::new(AtomicBool::new(false)));
        let (overran, overruns) = mpsc::channel();
        let policy = OnOverrun::Call(Arc::new(move |epoch| {
            let thread = thread::current().name().map(str::to_owned);
            overran.send((epoch.get(), thread)).unwrap();
            panic!("a panic in the policy has no effect");
        }));
        let candidate = Candidate::start(config.with_on_overrun(policy)).await;
        let candidate = Arc::new(candidate.unwrap());
        let run = tokio::spawn({
            let (candidate, runs, free) = (candidate.clone(), runs.clone(), free.clone());
            async move {
                let task = |leadership: Leadership| {
                    let (running, free) = (runs.begin(&leadership), free.clone());
                    async move {
                        let _running = running;
                        while !free.load(Ordering::SeqCst) {
                            thread::sleep(ms(5));
                        }
                        leadership.lost().await;
                    }
                };
                candidate.run_while_leader(pending(), task).await.unwrap();
            }
        });
        runs.begun(1).await;
        Self {
            candidate,
            runs,
            free,
            overruns,
            run,
        }
    }

    async fn overrun(&self) -> (u64, Option<String>) {
        wait_until("the overrun policy", async || self.overruns.try_recv().ok()).await
    }
}

impl Drop for BlockedCandidate {
    fn drop(&mut self) {
        self.free.store(true, Ordering::SeqCst);
        self.run.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_task_that_blocks_past_its_end_is_an_overrun_and_never_runs_twice() {
    let world = World::start();
    let proxy = world.proxy().await;
    let config = world.config("a").with_servers([endpoint(proxy.address())]);
    let blocked = BlockedCandidate::start(config).await;
    proxy.set(ProxyMode::Hang);
    let expiry = world.earliest_expiry().await;
    let (epoch, thread) = blocked.overrun().await;
    assert!(Instant::now() < expiry, "the policy was called too late");
    assert_eq!(epoch, blocked.runs.all()[0].epoch.get());
    assert_eq!(thread.as_deref(), Some("tenure-driver"));

    // The store is reachable again and the lease is free, but the first run of the task has not
    // ended.
    proxy.set(ProxyMode::Pass);
    world.free().await;
    tokio::time::sleep(brisk().lease_duration()).await;
    assert_eq!(blocked.runs.all().len(), 1);
    assert_eq!(world.holder().await, None);
    // The policy is called once.
    assert!(blocked.overruns.try_recv().is_err());

    blocked.free.store(true, Ordering::SeqCst);
    blocked.runs.begun(2).await;
    blocked.runs.assert_one_at_a_time();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_that_resigns_holds_its_lease_until_its_task_has_ended() {
    let world = World::start();
    // The task is cancelled, aborted and found blocked within a fraction of the lease duration.
    let config = world.config("a").with_timings(timings(1500, 300, 700, 200));
    let blocked = BlockedCandidate::start(config).await;
    let epoch = world.held_by("a").await;
    let next = world.candidate("b").await;
    let (next, resigned) = {
        let runs = blocked.runs.clone();
        let next = tokio::spawn(async move {
            let task = |leadership: Leadership| {
                drop(runs.begin(&leadership));
                stop_when_lost(leadership)
            };
            next.run_one_term(pending(), task).await
        });
        world.waiting(1).await;
        let candidate = blocked.candidate.clone();
        (next, tokio::spawn(async move { candidate.resign().await }))
    };
    // The lease is renewed meanwhile: for longer than the lease duration, and long after the abort.
    let until = Instant::now() + 2 * brisk().lease_duration();
    while Instant::now() < until {
        assert_eq!(world.holder().await, Some(("a".into(), epoch)));
        tokio::time::sleep(ms(20)).await;
    }
    assert!(!resigned.is_finished());
    // No other candidate could lead, so the policy has not acted.
    assert!(blocked.overruns.try_recv().is_err());
    blocked.free.store(true, Ordering::SeqCst);
    resigned.await.unwrap();
    let second = blocked.runs.begun(2).await;
    assert_eq!(second.candidate.as_str(), "b");
    blocked.runs.assert_one_at_a_time();
    next.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_continue_while_a_task_drains_and_the_release_comes_after_it() {
    let world = World::start();
    // The end of the task takes longer than the renew deadline: without renewals the lease would be
    // lost.
    let drain = ms(1500);
    let config = world
        .config("a")
        .with_timings(timings(3500, 200, 600, 2500));
    let candidate = Candidate::start(config).await.unwrap();
    // This candidate would wait for two minutes without a release.
    let config = world.config("b").with_timings(long());
    let next = Candidate::start(config).await.unwrap();
    let runs = TaskRuns::default();
    let task = |leadership: Leadership| {
        let running = runs.begin(&leadership);
        async move {
            let _running = running;
            let reason = leadership.lost().await;
            let end = Instant::now() + drain;
            while Instant::now() < end {
                // The lease is held and the leadership is valid, although the task must stop.
                leadership.check().map_err(|error| error.to_string())?;
                tokio::time::sleep(ms(10)).await;
            }
            match reason {
                EndReason::ShutDown => Ok(()),
                reason => Err(reason.to_string()),
            }
        }
    };
    let shutdown = async {
        runs.begun(1).await;
        world.waiting(1).await;
    };
    let follow = async {
        runs.begun(1).await;
        let guard = next.campaign().await.unwrap();
        drop(runs.begin(&guard));
    };
    let (term, ()) = tokio::join!(candidate.run_one_term(shutdown, task), follow);
    let term = term.unwrap().unwrap();
    assert_eq!((term.reason, term.error), (EndReason::ShutDown, None));
    let first = &runs.all()[0];
    assert!(first.ended.unwrap() - first.began >= drain);
    runs.assert_one_at_a_time();
}

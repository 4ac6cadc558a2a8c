//! The stopping ladder: told, aborted, overrun; and the lease, which is released after all of it.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use tenure::{Candidate, EndReason, Leadership, OnOverrun};
use tenure_tests::proxy::Mode;
use tenure_tests::store::endpoint;
use tenure_tests::wait_until;

use crate::world::{Reigns, World, brisk, long, ms, obedient, timings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_ignores_its_end_is_aborted_before_the_lease_ends() {
    let world = World::start();
    let proxy = world.proxy().await;
    let candidate = world.candidate_behind(&proxy, "a").await;
    let reigns = Reigns::default();
    let task = |leadership: Leadership| {
        let reigning = reigns.begin(&leadership);
        async move {
            let _reigning = reigning;
            pending::<()>().await;
        }
    };
    let fail = async {
        reigns.begun(1).await;
        proxy.set(Mode::Hang);
        world.earliest_expiry().await
    };
    let (term, expiry) = tokio::join!(candidate.run_one_term(pending(), task), fail);
    let term = term.unwrap().unwrap();
    assert_eq!(term.reason, EndReason::RenewDeadline);
    // The term is not over before its task is.
    let gone = reigns.all()[0].ended.unwrap();
    assert!(gone < expiry, "{:?} too late", gone - expiry);
}

/// A candidate whose task blocks its thread until it is told otherwise, in a term that began.
struct Stuck {
    candidate: Arc<Candidate>,
    reigns: Reigns,
    free: Arc<AtomicBool>,
    overruns: mpsc::Receiver<(u64, Option<String>)>,
    run: tokio::task::JoinHandle<()>,
}

impl Stuck {
    async fn start(config: tenure::Config) -> Self {
        let (reigns, free) = (Reigns::default(), Arc::new(AtomicBool::new(false)));
        let (overran, overruns) = mpsc::channel();
        let policy = OnOverrun::Call(Arc::new(move |epoch| {
            let thread = thread::current().name().map(str::to_owned);
            overran.send((epoch.get(), thread)).unwrap();
            panic!("a policy that panics does no harm");
        }));
        let candidate = Candidate::start(config.with_on_overrun(policy)).await;
        let candidate = Arc::new(candidate.unwrap());
        let run = tokio::spawn({
            let (candidate, reigns, free) = (candidate.clone(), reigns.clone(), free.clone());
            async move {
                let task = |leadership: Leadership| {
                    let (reigning, free) = (reigns.begin(&leadership), free.clone());
                    async move {
                        let _reigning = reigning;
                        while !free.load(Ordering::SeqCst) {
                            thread::sleep(ms(5));
                        }
                        leadership.lost().await;
                    }
                };
                candidate.run_while_leader(pending(), task).await.unwrap();
            }
        });
        reigns.begun(1).await;
        Self {
            candidate,
            reigns,
            free,
            overruns,
            run,
        }
    }

    async fn overrun(&self) -> (u64, Option<String>) {
        wait_until("the overrun policy", async || self.overruns.try_recv().ok()).await
    }
}

impl Drop for Stuck {
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
    let stuck = Stuck::start(config).await;
    proxy.set(Mode::Hang);
    let expiry = world.earliest_expiry().await;
    let (epoch, thread) = stuck.overrun().await;
    assert!(Instant::now() < expiry, "the policy was called too late");
    assert_eq!(epoch, stuck.reigns.all()[0].epoch.get());
    assert_eq!(thread.as_deref(), Some("tenure-driver"));

    // The store is back, and the lease is free; but the first copy of the task still lives.
    proxy.set(Mode::Pass);
    world.free().await;
    tokio::time::sleep(brisk().lease_duration()).await;
    assert_eq!(stuck.reigns.all().len(), 1);
    assert_eq!(world.holder().await, None);
    // Once is enough.
    assert!(stuck.overruns.try_recv().is_err());

    stuck.free.store(true, Ordering::SeqCst);
    stuck.reigns.begun(2).await;
    stuck.reigns.assert_one_at_a_time();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_that_resigns_holds_its_lease_until_its_task_is_gone() {
    let world = World::start();
    // The task is told, aborted and found stuck within a fraction of the lease.
    let config = world.config("a").with_timings(timings(1500, 300, 700, 200));
    let stuck = Stuck::start(config).await;
    let epoch = world.held_by("a").await;
    let next = world.candidate("b").await;
    let (next, resigned) = {
        let reigns = stuck.reigns.clone();
        let next = tokio::spawn(async move {
            let task = |leadership: Leadership| {
                drop(reigns.begin(&leadership));
                obedient(leadership)
            };
            next.run_one_term(pending(), task).await
        });
        world.waiting(1).await;
        let candidate = stuck.candidate.clone();
        (next, tokio::spawn(async move { candidate.resign().await }))
    };
    assert_eq!(stuck.overrun().await.0, epoch);
    // It is renewed all the while: for longer than any lease lasts.
    let until = Instant::now() + 2 * brisk().lease_duration();
    while Instant::now() < until {
        assert_eq!(world.holder().await, Some(("a".into(), epoch)));
        tokio::time::sleep(ms(20)).await;
    }
    assert!(!resigned.is_finished());
    stuck.free.store(true, Ordering::SeqCst);
    resigned.await.unwrap();
    let second = stuck.reigns.begun(2).await;
    assert_eq!(second.candidate.as_str(), "b");
    stuck.reigns.assert_one_at_a_time();
    next.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_continue_while_a_task_drains_and_the_release_comes_after_it() {
    let world = World::start();
    // Draining takes longer than the renew deadline: without renewals the lease would be lost.
    let drain = ms(1500);
    let config = world
        .config("a")
        .with_timings(timings(3500, 200, 600, 2500));
    let candidate = Candidate::start(config).await.unwrap();
    // It waits for two minutes, unless it is let in by a release.
    let config = world.config("b").with_timings(long());
    let next = Candidate::start(config).await.unwrap();
    let reigns = Reigns::default();
    let task = |leadership: Leadership| {
        let reigning = reigns.begin(&leadership);
        async move {
            let _reigning = reigning;
            let reason = leadership.lost().await;
            let end = Instant::now() + drain;
            while Instant::now() < end {
                // The lease is held, and says so, though the task is to stop.
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
        reigns.begun(1).await;
        world.waiting(1).await;
    };
    let follow = async {
        reigns.begun(1).await;
        let guard = next.campaign().await.unwrap();
        drop(reigns.begin(&guard));
    };
    let (term, ()) = tokio::join!(candidate.run_one_term(shutdown, task), follow);
    let term = term.unwrap().unwrap();
    assert_eq!((term.reason, term.error), (EndReason::ShutDown, None));
    let first = &reigns.all()[0];
    assert!(first.ended.unwrap() - first.began >= drain);
    reigns.assert_one_at_a_time();
}

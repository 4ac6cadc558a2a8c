//! Several candidates, one task at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure::{Candidate, Epoch, Leadership};
use tenure_tests::proxy::{Proxy, ProxyMode};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::world::{Reigns, World, brisk, contrite, long, ms};

/// Candidates that run the same task, each with a proxy of its own, until the test ends.
struct Fleet {
    candidates: Vec<(Arc<Candidate>, Proxy)>,
    reigns: Reigns,
    /// Tells the task of this term to fail.
    fail: watch::Sender<Option<Epoch>>,
    stop: watch::Sender<bool>,
    running: JoinSet<()>,
}

impl Fleet {
    async fn start(world: &World, names: &[&str]) -> Self {
        let (reigns, fail) = (Reigns::default(), watch::Sender::new(None));
        let (stop, stopped) = watch::channel(false);
        let (mut candidates, mut running) = (Vec::new(), JoinSet::new());
        for name in names {
            let proxy = world.proxy().await;
            let candidate = Arc::new(world.candidate_behind(&proxy, name).await);
            candidates.push((candidate.clone(), proxy));
            let (reigns, fail) = (reigns.clone(), fail.subscribe());
            let mut stopped = stopped.clone();
            running.spawn(async move {
                let shutdown = async move {
                    let _ = stopped.wait_for(|stopped| *stopped).await;
                };
                let task = |leadership: Leadership| {
                    let (reigning, mut fail) = (reigns.begin(&leadership), fail.clone());
                    async move {
                        let _reigning = reigning;
                        let this = Some(leadership.epoch());
                        let told = async {
                            let _ = fail.wait_for(|term| *term == this).await;
                        };
                        tokio::select! {
                            _ = leadership.lost() => {
                                // Some work to finish: long enough to be seen by another's task.
                                tokio::time::sleep(ms(50)).await;
                                Ok(())
                            }
                            () = told => Err("told to fail"),
                        }
                    }
                };
                candidate.run_while_leader(shutdown, task).await.unwrap();
            });
        }
        Self {
            candidates,
            reigns,
            fail,
            stop,
            running,
        }
    }

    fn of(&self, name: &str) -> &(Arc<Candidate>, Proxy) {
        let mut candidates = self.candidates.iter();
        candidates.find(|(c, _)| c.id().as_str() == name).unwrap()
    }

    async fn stop(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.running.join_next().await {
            ended.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_candidate_works_at_a_time_and_after_each_end_another_goes_on() {
    let world = World::start();
    let fleet = Fleet::start(&world, &["a", "b", "c", "d"]).await;
    let mut leaders = BTreeSet::new();
    let mut terms = 0;
    for round in 0..12 {
        // A busy machine may end a term by itself, so this is at least the next one.
        terms = fleet.reigns.all().len().max(terms + 1);
        let reign = fleet.reigns.begun(terms).await;
        leaders.insert(reign.candidate.to_string());
        let (candidate, proxy) = fleet.of(reign.candidate.as_str());
        match round % 4 {
            0 => candidate.resign().await,
            1 => drop(fleet.fail.send_replace(Some(reign.epoch))),
            2 => world.break_lease(Some(ms(600))).await,
            _ => proxy.set(ProxyMode::Hang),
        }
        fleet.reigns.ended(terms).await;
        proxy.set(ProxyMode::Pass);
    }
    let reigns = fleet.reigns.clone();
    fleet.stop().await;
    reigns.assert_one_at_a_time();
    assert!(leaders.len() > 1, "only {leaders:?} led");
    world.free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_whose_task_fails_or_panics_stands_back_for_another() {
    for panics in [false, true] {
        let world = World::start();
        let first = world
            .config("first")
            .with_timings(contrite())
            .with_priority(1);
        let first = Candidate::connect(first).await.unwrap();
        let second = world.config("second").with_timings(long());
        let second = Candidate::connect(second).await.unwrap();
        let reigns = Reigns::default();
        let bad = |leadership: Leadership| {
            let reigning = reigns.begin(&leadership);
            async move {
                let _reigning = reigning;
                assert!(!panics, "this task panics");
                Err("this task fails")
            }
        };
        let bad = first.run_while_leader(std::future::pending(), bad);
        let good = async {
            reigns.begun(1).await;
            // It need not wait in line: wherever both want the lease, the first goes first.
            for _ in 0..3 {
                let guard = second.campaign().await.unwrap();
                assert_eq!(world.held_by("second").await, guard.epoch().get());
                guard.resign().await;
                tokio::time::sleep(ms(100)).await;
            }
            assert_eq!(reigns.all().len(), 1);
        };
        tokio::select! {
            ended = bad => panic!("it stopped: {ended:?}"),
            () = good => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_fails_at_once_is_not_tried_again_before_the_cool_down() {
    let world = World::start();
    let candidate = world.candidate("only").await;
    let reigns = Reigns::default();
    let task = |leadership: Leadership| {
        let reigning = reigns.begin(&leadership);
        async move {
            drop(reigning);
            Err("again")
        }
    };
    tokio::select! {
        ended = candidate.run_while_leader(std::future::pending(), task) => panic!("{ended:?}"),
        _ = reigns.begun(4) => {}
    }
    for pair in reigns.all().windows(2) {
        assert!(pair[1].began - pair[0].ended.unwrap() >= brisk().cool_down());
    }
    reigns.assert_one_at_a_time();
}

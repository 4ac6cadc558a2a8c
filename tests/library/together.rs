//! Several candidates, one task at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure::{Candidate, Epoch, Leadership};
use tenure_tests::proxy::{Proxy, ProxyMode};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::world::{TaskRuns, World, brisk, long, ms, with_long_cool_down};

/// Candidates with the same task, each with a proxy of its own, until the test ends.
struct Fleet {
    candidates: Vec<(Arc<Candidate>, Proxy)>,
    runs: TaskRuns,
    /// Makes the task of this term fail.
    fail: watch::Sender<Option<Epoch>>,
    stop: watch::Sender<bool>,
    running: JoinSet<()>,
}

impl Fleet {
    async fn start(world: &World, names: &[&str]) -> Self {
        let (runs, fail) = (TaskRuns::default(), watch::Sender::new(None));
        let (stop, stopped) = watch::channel(false);
        let (mut candidates, mut running) = (Vec::new(), JoinSet::new());
        for name in names {
            let proxy = world.proxy().await;
            let candidate = Arc::new(world.candidate_behind(&proxy, name).await);
            candidates.push((candidate.clone(), proxy));
            let (runs, fail) = (runs.clone(), fail.subscribe());
            let mut stopped = stopped.clone();
            running.spawn(async move {
                let shutdown = async move {
                    let _ = stopped.wait_for(|stopped| *stopped).await;
                };
                let task = |leadership: Leadership| {
                    let (this_run, mut fail) = (runs.begin(&leadership), fail.clone());
                    async move {
                        let _this_run = this_run;
                        let this = Some(leadership.epoch());
                        let must_fail = async {
                            let _ = fail.wait_for(|term| *term == this).await;
                        };
                        tokio::select! {
                            _ = leadership.lost() => {
                                // Some time to finish: long enough for an overlap to be noticed.
                                tokio::time::sleep(ms(50)).await;
                                Ok(())
                            }
                            () = must_fail => Err("a requested failure"),
                        }
                    }
                };
                candidate.run_while_leader(shutdown, task).await.unwrap();
            });
        }
        Self {
            candidates,
            runs,
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
async fn one_candidate_works_at_a_time_and_after_each_end_another_continues() {
    let world = World::start();
    let fleet = Fleet::start(&world, &["a", "b", "c", "d"]).await;
    let mut leaders = BTreeSet::new();
    let mut terms = 0;
    for round in 0..12 {
        // A busy machine may end a term without a fault, so this is at least the next one.
        terms = fleet.runs.all().len().max(terms + 1);
        let run = fleet.runs.begun(terms).await;
        leaders.insert(run.candidate.to_string());
        let (candidate, proxy) = fleet.of(run.candidate.as_str());
        match round % 4 {
            0 => candidate.resign().await,
            1 => drop(fleet.fail.send_replace(Some(run.epoch))),
            2 => world.break_lease(Some(ms(600))).await,
            _ => proxy.set(ProxyMode::Hang),
        }
        fleet.runs.ended(terms).await;
        proxy.set(ProxyMode::Pass);
    }
    let runs = fleet.runs.clone();
    fleet.stop().await;
    runs.assert_one_at_a_time();
    assert!(leaders.len() > 1, "only {leaders:?} led");
    world.free().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_whose_task_fails_or_panics_cools_down_and_another_leads() {
    for panics in [false, true] {
        let world = World::start();
        let first = world
            .config("first")
            .with_timings(with_long_cool_down())
            .with_priority(1);
        let first = Candidate::start(first).await.unwrap();
        let second = world.config("second").with_timings(long());
        let second = Candidate::start(second).await.unwrap();
        let runs = TaskRuns::default();
        let bad = |leadership: Leadership| {
            let this_run = runs.begin(&leadership);
            async move {
                let _this_run = this_run;
                assert!(!panics, "this task panics");
                Err("this task fails")
            }
        };
        let bad = first.run_while_leader(std::future::pending(), bad);
        let good = async {
            runs.begun(1).await;
            // The second candidate need not wait: if both wanted the lease, the first would be
            // granted it first.
            for _ in 0..3 {
                let guard = second.campaign().await.unwrap();
                assert_eq!(world.held_by("second").await, guard.epoch().get());
                guard.resign().await;
                tokio::time::sleep(ms(100)).await;
            }
            assert_eq!(runs.all().len(), 1);
        };
        tokio::select! {
            ended = bad => panic!("the run ended: {ended:?}"),
            () = good => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_fails_at_once_runs_again_only_after_the_cool_down() {
    let world = World::start();
    let candidate = world.candidate("only").await;
    let runs = TaskRuns::default();
    let task = |leadership: Leadership| {
        let this_run = runs.begin(&leadership);
        async move {
            drop(this_run);
            Err("again")
        }
    };
    tokio::select! {
        ended = candidate.run_while_leader(std::future::pending(), task) => panic!("{ended:?}"),
        _ = runs.begun(4) => {}
    }
    for pair in runs.all().windows(2) {
        assert!(pair[1].began - pair[0].ended.unwrap() >= brisk().cool_down());
    }
    runs.assert_one_at_a_time();
}

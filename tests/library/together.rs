//! Several candidates, one task at a time.

use tenure::{Candidate, Leadership};

use crate::world::{TaskRuns, World, long, ms, with_long_cool_down};

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

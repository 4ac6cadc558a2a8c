//! Campaigns without a task, and dropped campaigns.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tenure::{Candidate, EndReason, Leadership};
use tokio::time::timeout;

use crate::world::{TaskRuns, World, long, ms, timings};

/// A candidate whose leases last longer than the test, so another one leads only after a release.
async fn steady(world: &World, name: &str) -> Candidate {
    let config = world.config(name).with_timings(long());
    Candidate::start(config).await.unwrap()
}

#[tokio::test]
async fn a_guard_leads_until_it_is_dropped() {
    let world = World::start();
    let candidate = steady(&world, "a").await;
    assert!(candidate.leadership().is_none());
    let guard = candidate.campaign().await.unwrap();
    assert_eq!(world.held_by("a").await, guard.epoch().get());
    assert!(guard.is_valid() && guard.remaining() > Duration::ZERO);
    assert_eq!(guard.check(), Ok(guard.epoch()));
    assert_eq!(guard.candidate(), candidate.id());
    assert_eq!(guard.election(), candidate.election());
    assert_eq!(candidate.leadership().unwrap().epoch(), guard.epoch());
    let seen = guard.clone();
    drop(guard);
    world.released().await;
    assert_eq!(seen.lost().await, EndReason::Resigned);
    assert!(candidate.leadership().is_none());
}

#[tokio::test]
async fn a_guard_that_resigns_waits_for_the_release() {
    let world = World::start();
    let candidate = steady(&world, "a").await;
    let guard = candidate.campaign().await.unwrap();
    let first = guard.epoch();
    assert_eq!(guard.resign().await, EndReason::Resigned);
    assert_eq!(world.holder().await, None);
    let guard = candidate.campaign().await.unwrap();
    assert!(first < guard.epoch());
}

#[tokio::test]
async fn a_guard_may_outlive_its_candidate() {
    let world = World::start();
    let candidate = steady(&world, "a").await;
    let guard = candidate.campaign().await.unwrap();
    drop(candidate);
    tokio::time::sleep(2 * long().renew_interval()).await;
    assert!(guard.is_valid() && !guard.is_at_risk());
    assert_eq!(world.held_by("a").await, guard.epoch().get());
    assert_eq!(guard.resign().await, EndReason::Resigned);
    assert_eq!(world.holder().await, None);
}

#[tokio::test]
async fn campaigns_of_one_candidate_wait_for_each_other() {
    let world = World::start();
    let candidate = steady(&world, "a").await;
    let guard = candidate.campaign().await.unwrap();
    let last = std::cell::Cell::new(guard.epoch());
    let another = async || {
        let guard = candidate.campaign().await.unwrap();
        assert!(last.replace(guard.epoch()) < guard.epoch());
        assert_eq!(
            world.holder().await,
            Some(("a".into(), guard.epoch().get()))
        );
        tokio::time::sleep(ms(50)).await;
        assert!(guard.is_valid());
    };
    let mut others = Box::pin(async { tokio::join!(another(), another(), another()) });
    assert!(timeout(ms(300), &mut others).await.is_err());
    assert!(guard.is_valid());
    assert_eq!(last.get(), guard.epoch());
    drop(guard);
    others.await;
    world.released().await;
}

#[tokio::test]
async fn a_dropped_campaign_leaves_the_waiting_queue() {
    let world = World::start();
    let (first, second) = (steady(&world, "a").await, steady(&world, "b").await);
    let guard = first.campaign().await.unwrap();
    tokio::select! {
        _ = second.campaign() => panic!("two leaders"),
        () = world.waiting(1) => {}
    }
    world.waiting(0).await;
    guard.resign().await;
    assert_eq!(world.holder().await, None);
    // The candidate can campaign again.
    drop(second.campaign().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_campaign_may_be_dropped_at_any_moment_and_leaves_no_lease_behind() {
    let world = World::start();
    // Timings that tolerate a store that is slow to take a grant back.
    let patient = timings(120_000, 20_000, 60_000, 20_000);
    let config = world.config("a").with_timings(patient);
    let candidate = Candidate::start(config).await.unwrap();
    for moment in 0..60 {
        // The times of the drops are from before the request until after the grant, which takes a
        // few milliseconds.
        let patience = Duration::from_micros(moment * 150);
        if let Ok(won) = timeout(patience, candidate.campaign()).await {
            drop(won);
        }
    }
    // The lease is free: otherwise this campaign would wait for two minutes.
    let other = steady(&world, "b").await;
    other.campaign().await.unwrap().resign().await;
    world.released().await;
}

#[tokio::test]
async fn a_candidate_that_resigns_while_it_campaigns_keeps_its_place_in_the_queue() {
    let world = World::start();
    let leader = steady(&world, "leader").await;
    let (first, second) = (
        steady(&world, "first").await,
        steady(&world, "second").await,
    );
    let guard = leader.campaign().await.unwrap();
    let waiting_first = async {
        // The leadership is kept until the other campaign is dropped.
        first.campaign().await.unwrap()
    };
    let waiting_second = async {
        world.waiting(1).await;
        tokio::select! {
            _ = second.campaign() => panic!("the second candidate was granted first"),
            () = async {
                world.waiting(2).await;
                // There is no term to end, so this returns at once.
                timeout(ms(5000), first.resign()).await.unwrap();
                tokio::time::sleep(ms(300)).await;
                guard.resign().await;
                world.held_by("first").await;
            } => {}
        }
    };
    let (won, ()) = tokio::join!(waiting_first, waiting_second);
    assert_eq!(world.held_by("first").await, won.epoch().get());
}

#[tokio::test]
async fn dropping_a_run_stops_its_task_and_releases_the_lease_afterwards() {
    let world = World::start();
    let candidate = steady(&world, "a").await;
    let runs = TaskRuns::default();
    let (stopped, tell) = std::sync::mpsc::channel();
    let task = |leadership: Leadership| {
        let (running, stopped) = (runs.begin(&leadership), stopped.clone());
        async move {
            let _running = running;
            stopped.send(leadership.lost().await).unwrap();
            tokio::time::sleep(ms(300)).await;
        }
    };
    tokio::select! {
        ended = candidate.run_while_leader(pending(), task) => panic!("{ended:?}"),
        _ = runs.begun(1) => {}
    }
    // Dropping the candidate as well does not shorten the end of the task.
    drop(candidate);
    let next = steady(&world, "b").await;
    let guard = next.campaign().await.unwrap();
    drop(runs.begin(&guard));
    assert_eq!(tell.recv().unwrap(), EndReason::Resigned);
    runs.assert_one_at_a_time();
}

#[tokio::test]
async fn dropping_a_run_aborts_a_task_that_does_not_stop() {
    let world = World::start();
    let timings = timings(60_000, 300, 30_000, 300);
    let config = world.config("a").with_timings(timings);
    let candidate = Candidate::start(config).await.unwrap();
    let runs = TaskRuns::default();
    let task = |leadership: Leadership| {
        let running = runs.begin(&leadership);
        async move {
            let _running = running;
            pending::<()>().await;
        }
    };
    tokio::select! {
        ended = candidate.run_while_leader(pending(), task) => panic!("{ended:?}"),
        _ = runs.begun(1) => {}
    }
    runs.ended(1).await;
    world.released().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_campaign_leaves_the_lease_to_a_task_that_is_still_stopping() {
    let world = World::start();
    let candidate = steady(&world, "a").await;
    let runs = TaskRuns::default();
    let task = |leadership: Leadership| {
        let running = runs.begin(&leadership);
        async move {
            let _running = running;
            leadership.lost().await;
            tokio::time::sleep(ms(1000)).await;
        }
    };
    tokio::select! {
        ended = candidate.run_while_leader(pending(), task) => panic!("{ended:?}"),
        _ = runs.begun(1) => {}
    }
    // The task of the dropped run takes time to stop. A campaign starts and is dropped meanwhile.
    assert!(timeout(ms(200), candidate.campaign()).await.is_err());
    let next = Arc::new(steady(&world, "b").await);
    let guard = next.campaign().await.unwrap();
    drop(runs.begin(&guard));
    runs.assert_one_at_a_time();
}

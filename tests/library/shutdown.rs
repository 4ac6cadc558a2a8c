//! Shutting down at any time, quickly, without leaving anything behind.

use std::future::{pending, ready};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure::{Candidate, EndReason, Leadership};
use tenure_tests::proxy::ProxyMode;
use tenure_tests::store::endpoint;
use tokio::sync::Notify;

use crate::world::{TaskRuns, World, leads, long, ms, never, timings, with_long_cool_down};

/// Limit for these tests on a busy machine; far below a lease duration of two minutes.
const PROMPT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_shutdown_before_the_start_starts_nothing() {
    let world = World::start();
    let candidate = world.candidate("a").await;
    candidate.run_while_leader(ready(()), never).await.unwrap();
    assert_eq!(world.lease().await, None);
}

#[tokio::test]
async fn a_shutdown_during_a_campaign_returns_promptly_and_leaves_no_lease_behind() {
    let world = World::start();
    let config = world.config("a").with_timings(long());
    let leader = Candidate::start(config).await.unwrap();
    let guard = leader.campaign().await.unwrap();
    let config = world.config("b").with_timings(long());
    let candidate = Candidate::start(config).await.unwrap();
    let began = Instant::now();
    let run = candidate.run_while_leader(world.waiting(1), never);
    run.await.unwrap();
    assert!(began.elapsed() < PROMPT);
    world.waiting(0).await;
    guard.resign().await;
    assert_eq!(world.holder().await, None);
}

#[tokio::test]
async fn a_shutdown_releases_a_grant_whose_answer_was_lost() {
    let world = World::start();
    let proxy = world.proxy().await;
    // Timings that tolerate a store that is slow to take the lease back.
    let config = world.config("a").with_servers([endpoint(proxy.address())]);
    let config = config.with_timings(timings(120_000, 20_000, 60_000, 20_000));
    let candidate = Candidate::start(config).await.unwrap();
    proxy.lose_replies(usize::MAX);
    let shutdown = async {
        world.held_by("a").await;
        proxy.set(ProxyMode::Hang);
        proxy.lose_replies(0);
    };
    let later = async {
        world.held_by("a").await;
        tokio::time::sleep(ms(300)).await;
        proxy.set(ProxyMode::Pass);
    };
    let run = async {
        candidate.run_while_leader(shutdown, never).await.unwrap();
        // If the process exits now, no lease is left behind.
        world.holder().await
    };
    let (left, ()) = tokio::join!(run, later);
    assert_eq!(left, None);
}

#[tokio::test]
async fn a_shutdown_in_the_cool_down_does_not_wait_for_its_end() {
    let world = World::start();
    let config = world.config("a").with_timings(with_long_cool_down());
    let candidate = Candidate::start(config).await.unwrap();
    let began = Instant::now();
    let shutdown = async {
        world.held_by_anyone_once().await;
    };
    let task = |_| async { Err::<(), _>("at once") };
    candidate.run_while_leader(shutdown, task).await.unwrap();
    assert!(began.elapsed() < PROMPT);
    assert_eq!(world.holder().await, None);
}

#[tokio::test]
async fn a_shutdown_without_a_reachable_store_returns_within_a_few_renew_intervals() {
    for mode in [ProxyMode::Refuse, ProxyMode::Hang] {
        // During a campaign and during a term.
        for leading in [false, true] {
            let world = World::start();
            let proxy = world.proxy().await;
            let config = world.config("a").with_timings(long());
            let config = config.with_servers([endpoint(proxy.address())]);
            let candidate = Candidate::start(config).await.unwrap();
            if !leading {
                proxy.set(mode);
            }
            let runs = TaskRuns::default();
            let task = |leadership: Leadership| {
                let running = runs.begin(&leadership);
                async move {
                    let _running = running;
                    leadership.lost().await;
                }
            };
            let mut asked = Instant::now();
            let shutdown = async {
                if leading {
                    runs.begun(1).await;
                    proxy.set(mode);
                } else {
                    tokio::time::sleep(long().renew_interval()).await;
                }
                asked = Instant::now();
            };
            candidate.run_while_leader(shutdown, task).await.unwrap();
            // With a store that hangs, the shutdown takes the whole limit; a busy machine adds some
            // time.
            let took = asked.elapsed();
            assert!(took < 4 * long().renew_interval() + ms(2000), "{took:?}");
        }
    }
}

#[tokio::test]
async fn a_shutdown_while_a_lost_term_ends_returns_after_it() {
    let world = World::start();
    let proxy = world.proxy().await;
    let candidate = world.candidate_behind(&proxy, "a").await;
    let lost = Arc::new(Notify::new());
    let task = |leadership: Leadership| {
        let lost = lost.clone();
        async move {
            assert_eq!(leadership.lost().await, EndReason::RenewDeadline);
            lost.notify_one();
            pending::<()>().await;
        }
    };
    let cut = async {
        leads(&candidate).await;
        proxy.set(ProxyMode::Hang);
    };
    // The term already has another reason for its end than the shutdown; the run returns all the
    // same.
    let shutdown = async { lost.notified().await };
    let run = candidate.run_while_leader(shutdown, task);
    let (ended, ()) = tokio::join!(tokio::time::timeout(PROMPT, run), cut);
    ended.expect("the run returns").unwrap();
}

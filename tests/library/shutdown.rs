//! Shutting down at any time, quickly, without leaving anything behind.

use std::future::ready;
use std::time::{Duration, Instant};

use tenure::{Candidate, Leadership};
use tenure_tests::proxy::ProxyMode;
use tenure_tests::store::endpoint;

use crate::world::{TaskRuns, World, long, ms, never};

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

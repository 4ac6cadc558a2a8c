//! Shutting down at any time, quickly, with nothing left behind.

use std::future::{pending, ready};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure::{Candidate, EndReason, Leadership};
use tenure_tests::proxy::Mode;
use tenure_tests::store::endpoint;
use tokio::sync::Notify;

use crate::world::{Reigns, World, contrite, leads, long, ms, never, timings};

/// More than any of these may take, on a machine that is busy with other things; and far less than
/// a lease of two minutes.
const PROMPT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_shutdown_that_is_already_complete_starts_nothing() {
    let world = World::start();
    let candidate = world.candidate("a").await;
    candidate.run_while_leader(ready(()), never).await.unwrap();
    assert_eq!(world.lease().await, None);
}

#[tokio::test]
async fn a_shutdown_while_it_campaigns_returns_promptly_and_leaves_nothing() {
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
async fn a_shutdown_releases_a_lease_whose_grant_was_not_answered() {
    let world = World::start();
    let proxy = world.proxy().await;
    // Patient with a store that is slow to take the lease back.
    let config = world.config("a").with_servers([endpoint(proxy.address())]);
    let config = config.with_timings(timings(120_000, 20_000, 60_000, 20_000));
    let candidate = Candidate::start(config).await.unwrap();
    proxy.lose_replies(usize::MAX);
    let shutdown = async {
        world.held_by("a").await;
        proxy.set(Mode::Hang);
        proxy.lose_replies(0);
    };
    let later = async {
        world.held_by("a").await;
        tokio::time::sleep(ms(300)).await;
        proxy.set(Mode::Pass);
    };
    let run = async {
        candidate.run_while_leader(shutdown, never).await.unwrap();
        // Whoever ends its process now leaves nothing behind.
        world.holder().await
    };
    let (left, ()) = tokio::join!(run, later);
    assert_eq!(left, None);
}

#[tokio::test]
async fn a_shutdown_in_the_cool_down_does_not_wait_for_its_end() {
    let world = World::start();
    let config = world.config("a").with_timings(contrite());
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
async fn a_shutdown_while_the_store_is_unreachable_returns_within_a_few_renew_intervals() {
    for mode in [Mode::Refuse, Mode::Hang] {
        // While it campaigns, and while it leads.
        for leading in [false, true] {
            let world = World::start();
            let proxy = world.proxy().await;
            let config = world.config("a").with_timings(long());
            let config = config.with_servers([endpoint(proxy.address())]);
            let candidate = Candidate::start(config).await.unwrap();
            if !leading {
                proxy.set(mode);
            }
            let reigns = Reigns::default();
            let task = |leadership: Leadership| {
                let reigning = reigns.begin(&leadership);
                async move {
                    let _reigning = reigning;
                    leadership.lost().await;
                }
            };
            let mut asked = Instant::now();
            let shutdown = async {
                if leading {
                    reigns.begun(1).await;
                    proxy.set(mode);
                } else {
                    tokio::time::sleep(long().renew_interval()).await;
                }
                asked = Instant::now();
            };
            candidate.run_while_leader(shutdown, task).await.unwrap();
            // A hung store takes the whole time that it is given, a busy machine some more.
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
        proxy.set(Mode::Hang);
    };
    // The term has a reason to end already, and it is not the shutdown; it returns all the same.
    let shutdown = async { lost.notified().await };
    let run = candidate.run_while_leader(shutdown, task);
    let (ended, ()) = tokio::join!(tokio::time::timeout(PROMPT, run), cut);
    ended.expect("it returns").unwrap();
}

//! Observing the leader of an election.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;

use futures_core::Stream;
use tenure::Candidate;
use tenure::observe::{Observed, Observer};
use tenure_tests::proxy::ProxyMode;
use tokio::time::timeout;

use crate::world::{World, long, ms};

/// The next observation from the stream.
async fn next(observer: &mut Observer) -> Observed {
    let next = poll_fn(|context| Pin::new(&mut *observer).poll_next(context));
    let next = timeout(tenure_tests::PATIENCE, next).await;
    next.expect("a change").expect("a stream without an end")
}

#[tokio::test]
async fn an_observer_sees_leaders_come_and_go() {
    let world = World::start();
    let mut observer = world.candidate("spectator").await.observe();
    assert_eq!(next(&mut observer).await, Observed::NoLeader);

    let metadata = BTreeMap::from([("address".into(), "http://10.0.0.7:8080".into())]);
    let config = world.config("a").with_metadata(metadata.clone());
    let first = Candidate::start(config.with_timings(long())).await;
    let first = first.unwrap();
    let guard = first.campaign().await.unwrap();
    let leader = Observed::Leader {
        candidate: "a".parse().unwrap(),
        epoch: guard.epoch(),
        metadata,
    };
    assert_eq!(observer.next().await, leader);
    // A new observer gets the current state first.
    assert_eq!(next(&mut first.observe()).await, leader);

    guard.resign().await;
    assert_eq!(next(&mut observer).await, Observed::NoLeader);

    let second = world.candidate("b").await;
    let guard = second.campaign().await.unwrap();
    let Observed::Leader {
        candidate, epoch, ..
    } = next(&mut observer).await
    else {
        panic!("no leader");
    };
    assert_eq!((&candidate, epoch), (second.id(), guard.epoch()));
}

#[tokio::test]
async fn an_observer_sees_that_a_lease_has_expired() {
    let world = World::start();
    let proxy = world.proxy().await;
    let candidate = world.candidate_behind(&proxy, "a").await;
    let guard = candidate.campaign().await.unwrap();
    let mut observer = world.candidate("spectator").await.observe();
    assert!(matches!(next(&mut observer).await, Observed::Leader { .. }));
    proxy.set(ProxyMode::Hang);
    assert_eq!(next(&mut observer).await, Observed::NoLeader);
    // The leader itself has noticed it before.
    assert!(!guard.is_valid());
}

#[tokio::test]
async fn an_observer_reports_unknown_while_the_store_refuses_connections() {
    check_that_the_leader_is_unknown(ProxyMode::Refuse).await;
}

#[tokio::test]
async fn an_observer_reports_unknown_while_the_store_hangs() {
    check_that_the_leader_is_unknown(ProxyMode::Hang).await;
}

async fn check_that_the_leader_is_unknown(mode: ProxyMode) {
    let world = World::start();
    let proxy = world.proxy().await;
    let leader = Candidate::start(world.config("a").with_timings(long())).await;
    let leader = leader.unwrap();
    let _guard = leader.campaign().await.unwrap();
    let mut observer = world.candidate_behind(&proxy, "spectator").await.observe();
    let seen = next(&mut observer).await;
    assert!(matches!(seen, Observed::Leader { .. }));
    proxy.set(mode);
    let unknown = next(&mut observer).await;
    assert!(matches!(unknown, Observed::Unknown(_)), "{unknown:?}");
    // It reports that once, for any number of attempts.
    assert!(timeout(ms(2500), observer.next()).await.is_err());
    proxy.set(ProxyMode::Pass);
    assert_eq!(next(&mut observer).await, seen);
}

#[tokio::test]
async fn an_observer_that_lags_gets_the_current_state_at_its_next_read() {
    let world = World::start();
    let mut observer = world.candidate("spectator").await.observe();
    assert_eq!(next(&mut observer).await, Observed::NoLeader);
    let candidate = world.candidate("a").await;
    for _ in 0..20 {
        candidate.campaign().await.unwrap().resign().await;
    }
    let guard = candidate.campaign().await.unwrap();
    for _ in 0..20 {
        let seen = next(&mut observer).await;
        if matches!(seen, Observed::Leader { epoch, .. } if epoch == guard.epoch()) {
            return;
        }
    }
    panic!("the observer never caught up");
}

#[tokio::test]
async fn an_observer_outlives_its_candidate() {
    let world = World::start();
    let candidate = world.candidate("spectator").await;
    let mut observer = candidate.observe();
    drop(candidate);
    assert_eq!(next(&mut observer).await, Observed::NoLeader);
    let leader = world.candidate("a").await;
    let guard = leader.campaign().await.unwrap();
    assert!(matches!(next(&mut observer).await, Observed::Leader { .. }));
    drop(guard);
}

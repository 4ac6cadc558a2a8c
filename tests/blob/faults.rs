//! Failures between a candidate and the service, and changes by other clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tenure::{Candidate, Config, EndReason, TimingsOptions};
use tenure_tests::proxy::{Proxy, ProxyMode};
use tenure_tests::{Limit, wait_until};
use tokio::net::TcpListener;

use super::front::{Asked, Fate, Front};
use super::{World, blob_at, candidate, config, lead_in_turns};

/// Gives the first `count` requests of this kind this fate.
pub(super) fn first(
    what: &'static str,
    count: usize,
    fate: Fate,
) -> impl FnMut(&Asked) -> Fate + Send {
    let mut left = count;
    move |asked| {
        if asked.what != what || left == 0 {
            return Fate::Passes;
        }
        left -= 1;
        fate
    }
}

#[tokio::test]
async fn a_leader_by_a_blob_that_is_cut_off_stops_before_another_leads() {
    let world = World::start();
    let proxy = Proxy::start(world.store.address()).await.unwrap();
    let first = candidate("first", proxy.address()).await;
    let leadership = first.campaign().await.unwrap();
    let epoch = leadership.epoch();
    let second = world.candidate("second").await;
    let follower = tokio::spawn(async move { second.campaign().await.unwrap() });
    proxy.set(ProxyMode::Hang);
    let cut = Instant::now();
    assert_eq!(leadership.lost().await, EndReason::RenewDeadline);
    let lost = Instant::now();
    assert!(!leadership.is_valid());
    assert!(lost - cut < Duration::from_secs(11), "{:?}", lost - cut);
    assert!(!follower.is_finished());
    drop(leadership);
    let next = follower.await.unwrap();
    assert!(next.epoch() > epoch);
    // The last 5 s of the lease's 15 s are left for stopping.
    assert!(
        lost.elapsed() > Duration::from_secs(3),
        "{:?}",
        lost.elapsed()
    );
}

#[tokio::test]
async fn a_renewal_is_retried_while_the_service_is_busy_and_the_term_continues() {
    let world = World::start();
    let busy = first("renew", 3, Fate::Refused(503, "ServerBusy"));
    let front = Front::start(world.store.address(), busy).await;
    let leader = candidate("leader", front.address).await;
    let leadership = leader.campaign().await.unwrap();
    leadership.at_risk().await;
    wait_until("renewals", async || {
        let asked = front.asked();
        let renewals = asked.iter().filter(|asked| asked.what == "renew");
        (renewals.count() >= 4).then_some(())
    })
    .await;
    wait_until("the end of the risk", async || {
        (!leadership.is_at_risk()).then_some(())
    })
    .await;
    assert!(leadership.is_valid());
}

#[tokio::test]
async fn an_epoch_is_written_only_if_the_blob_is_unchanged_since_the_last_one_was_read() {
    let world = World::start();
    let repeated = first("metadata", 1, Fate::Repeated);
    let front = Front::start(world.store.address(), repeated).await;
    let candidate = candidate("unlucky", front.address).await;
    let leadership = candidate.campaign().await.unwrap();
    let epochs: Vec<u64> = front
        .asked()
        .iter()
        .filter_map(|asked| asked.epoch)
        .collect();
    assert_eq!(
        epochs.len(),
        2,
        "the repeated write of the first epoch was refused"
    );
    assert!(epochs[0] < epochs[1] && epochs[1] == leadership.epoch().get());
}

/// On average, of sixteen requests one succeeds although its answer is an error, one is dropped
/// with an error, and one is sent twice.
#[tokio::test]
async fn with_a_service_that_fails_at_random_leaders_do_not_overlap_and_epochs_increase() {
    let world = World::start();
    let seed = std::env::var("TENURE_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| std::process::id().into());
    println!("TENURE_SEED={seed}");
    let mut random = seed;
    let front = Front::start(world.store.address(), move |_| {
        // Knuth's MMIX generator; its high bits are the random ones.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        match random >> 60 {
            0 => Fate::Denied(500, "InternalError"),
            1 => Fate::Refused(503, "ServerBusy"),
            2 => Fate::Repeated,
            _ => Fate::Passes,
        }
    })
    .await;
    lead_in_turns(front.address, 8).await.assert_one_at_a_time();
}

/// Such a server is, for example, the login page of a public network.
#[tokio::test]
async fn a_server_that_accepts_everything_elects_no_leader() {
    let _limit = Limit::start();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let yes = axum::Router::new().fallback(async || [("x-ms-request-id", "1"), ("etag", "1")]);
    tokio::spawn(async move { axum::serve(listener, yes).await });
    let candidate = candidate("guest", address).await;
    let elected = tokio::time::timeout(Duration::from_secs(2), candidate.campaign());
    assert!(elected.await.is_err());
}

/// The configuration of a candidate with Azure's longest lease, which is a minute.
fn patient(name: &str, address: SocketAddr) -> Config {
    let long = |timings: &mut TimingsOptions| {
        timings.lease_duration = Some(Duration::from_secs(60));
        timings.renew_interval = Some(Duration::from_millis(500));
        timings.renew_deadline = Some(Duration::from_secs(2));
    };
    let config = config(name, blob_at(address)).with_adjusted_timings(long);
    config.expect("timings")
}

#[tokio::test]
async fn after_an_outage_of_the_blob_service_a_candidate_leads_at_once_under_another_id_and_epoch()
{
    let world = World::start();
    let is_away = Arc::new(AtomicBool::new(false));
    let rule = is_away.clone();
    let front = Front::start(world.store.address(), move |_| {
        match rule.load(Ordering::Relaxed) {
            true => Fate::Lost,
            false => Fate::Passes,
        }
    })
    .await;
    let leader = Candidate::start(patient("leader", front.address)).await;
    let leader = leader.unwrap();
    let first = leader.campaign().await.unwrap();
    let epoch = first.epoch();
    is_away.store(true, Ordering::Relaxed);
    assert_eq!(first.lost().await, EndReason::RenewDeadline);
    drop(first);
    let campaign = tokio::spawn(async move { leader.campaign().await.unwrap() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    is_away.store(false, Ordering::Relaxed);
    let next = tokio::time::timeout(Duration::from_secs(20), campaign).await;
    let next = next.expect("no wait for the end of the old lease").unwrap();
    assert!(next.epoch() > epoch);
    let granted = front.asked().into_iter();
    let granted = granted.filter(|asked| asked.what == "acquire" && asked.done);
    let ids: Vec<_> = granted.map(|asked| asked.id).collect();
    assert!(ids.first() != ids.last(), "{ids:?}");
    next.resign().await;
}

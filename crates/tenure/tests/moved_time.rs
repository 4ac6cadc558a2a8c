//! The real candidate against a store in memory, with a clock that the test moves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tenure::observe::Observed;
use tenure::testing::TestStore;
use tenure::{Config, ElectionName, EndReason, HealthCheck, Leadership, ProclaimError};

const fn s(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn election(name: &str) -> ElectionName {
    name.parse().unwrap()
}

fn config(name: &str, candidate: &str) -> Config {
    Config::new(election(name)).with_candidate(candidate.parse().unwrap())
}

async fn until_lost(leadership: Leadership) {
    leadership.lost().await;
}

#[tokio::test]
async fn several_elections_on_one_thread_renew_with_one_request() {
    let store = TestStore::start().unwrap();
    let candidates: Vec<_> = (0..10)
        .map(|number| store.candidate(config(&format!("e{number}"), "one")))
        .collect();
    let mut guards = Vec::new();
    for candidate in &candidates {
        guards.push(candidate.campaign().await.unwrap());
    }
    store.advance(s(20)).await;
    let before = store.requests();
    store.advance(s(50)).await;
    assert!(guards.iter().all(|guard| guard.is_valid()));
    let requests = store.requests() - before;
    assert!(
        requests <= 30,
        "{requests} requests for 10 elections and 20 renewals of each"
    );
}

#[tokio::test]
async fn an_unreachable_store_ends_the_term_at_the_renew_deadline_and_not_before() {
    let store = TestStore::start().unwrap();
    let candidate = store.candidate(config("a", "one"));
    let leadership = candidate.campaign().await.unwrap();
    store.set_reachable(false);
    store.advance(Duration::from_millis(9_900)).await;
    assert!(leadership.is_valid() && leadership.is_at_risk());
    store.advance(Duration::from_millis(100)).await;
    assert!(!leadership.is_valid());
    assert_eq!(leadership.lost().await, EndReason::RenewDeadline);
}

#[tokio::test]
async fn a_lost_renewal_is_tried_again_and_the_term_goes_on() {
    let store = TestStore::start().unwrap();
    let candidate = store.candidate(config("a", "one"));
    let leadership = candidate.campaign().await.unwrap();
    store.lose_replies(1);
    store.advance(s(60)).await;
    assert!(leadership.is_valid() && !leadership.is_at_risk());
}

#[tokio::test]
async fn after_a_suspension_the_term_is_over_at_once() {
    let store = TestStore::start().unwrap();
    let candidate = store.candidate(config("a", "one"));
    let leadership = candidate.campaign().await.unwrap();
    store.jump(s(3_600)).await;
    assert!(!leadership.is_valid());
    assert_eq!(leadership.lost().await, EndReason::Suspended);
}

#[tokio::test]
async fn a_task_that_shows_no_progress_loses_its_term() {
    let store = TestStore::start().unwrap();
    let config = config("a", "one")
        .with_adjusted_timings(|timings| timings.progress_deadline = Some(s(60)))
        .unwrap();
    let candidate = store.candidate(config);
    let leadership = candidate.campaign().await.unwrap();
    for _ in 0..3 {
        store.advance(s(50)).await;
        leadership.report_progress();
    }
    assert!(leadership.is_valid());
    store.advance(s(61)).await;
    assert_eq!(leadership.lost().await, EndReason::Unhealthy);
    assert!(!leadership.is_valid());
}

#[tokio::test]
async fn a_task_whose_health_check_fails_loses_its_term() {
    let store = TestStore::start().unwrap();
    let well = Arc::new(AtomicBool::new(true));
    let asked = Arc::new(AtomicUsize::new(0));
    let check = {
        let (well, asked) = (well.clone(), asked.clone());
        HealthCheck::new(move || {
            asked.fetch_add(1, Ordering::Relaxed);
            let well = well.load(Ordering::Relaxed);
            async move { if well { Ok(()) } else { Err("no disk") } }
        })
    };
    let candidate = store.candidate(config("a", "one").with_health_check(check));
    let term = tokio::spawn(async move {
        candidate
            .run_one_term(std::future::pending::<()>(), until_lost)
            .await
    });
    store.advance(s(30)).await;
    assert!(asked.load(Ordering::Relaxed) >= 4);
    assert!(!term.is_finished());
    well.store(false, Ordering::Relaxed);
    store.advance(s(6)).await;
    assert_eq!(
        term.await.unwrap().unwrap().unwrap().reason,
        EndReason::Unhealthy
    );
}

#[tokio::test]
async fn a_health_check_without_a_result_in_time_ends_the_term() {
    let store = TestStore::start().unwrap();
    let check = HealthCheck::new(std::future::pending::<Result<(), String>>);
    let check = check.with_interval(s(1)).with_timeout(s(2));
    let candidate = store.candidate(config("a", "one").with_health_check(check));
    let term = tokio::spawn(async move {
        candidate
            .run_one_term(std::future::pending::<()>(), until_lost)
            .await
    });
    store.advance(s(5)).await;
    assert_eq!(
        term.await.unwrap().unwrap().unwrap().reason,
        EndReason::Unhealthy
    );
}

#[tokio::test]
async fn proclaimed_metadata_are_visible_until_the_term_ends() {
    let store = TestStore::start().unwrap();
    let candidate = store.candidate(config("a", "one"));
    let mut observer = candidate.observe();
    assert_eq!(observer.next().await, Observed::NoLeader);
    let leadership = candidate.campaign().await.unwrap();
    let said = BTreeMap::from([("address".to_owned(), "http://10.0.0.7".to_owned())]);
    leadership.proclaim(said.clone()).await.unwrap();
    let much = BTreeMap::from([("address".to_owned(), "x".repeat(4_090))]);
    let refused = leadership.proclaim(much).await.unwrap_err();
    assert!(
        matches!(&refused, ProclaimError::Metadata(why) if why.contains("4097")),
        "{refused}"
    );
    loop {
        match observer.next().await {
            Observed::Leader { metadata, .. } if metadata == said => break,
            Observed::Leader { .. } => store.advance(s(1)).await,
            other => panic!("{other:?}"),
        }
    }
    let guard_of = leadership.clone();
    leadership.resign().await;
    assert!(guard_of.proclaim(said).await.is_err());
    store.advance(s(1)).await;
    assert_eq!(observer.next().await, Observed::NoLeader);
}

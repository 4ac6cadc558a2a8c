//! Each number changes when its event happens, with a clock that the test moves.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tenure::metrics::Metrics;
use tenure::testing::TestStore;
use tenure::{Config, EndReason, HealthCheck, Leadership};

/// The default renew deadline is 10 s, and the default hard stop 14 s.
const RENEW_DEADLINE_MS: u64 = 10_000;

fn config() -> Config {
    Config::new("tests/job".parse().expect("a name"))
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The reasons with an ended term.
fn ends(metrics: &Metrics) -> Vec<(EndReason, u64)> {
    let ended = metrics.terms_ended.iter().copied();
    ended.filter(|(_, count)| *count > 0).collect()
}

#[tokio::test]
async fn a_leader_has_an_epoch_a_deadline_and_renewals_and_keeps_the_counts_after_its_term() {
    let store = TestStore::start().expect("a store");
    let candidate = store.candidate(config().with_candidate("one".parse().expect("an id")));
    let before = candidate.metrics();
    assert_eq!(before.election.to_string(), "tests/job");
    assert_eq!(before.candidate.as_str(), "one");
    assert!(!before.leads);
    assert_eq!((before.epoch, before.deadline_unix_ms), (None, None));
    assert_eq!(before.last_renewal_unix_ms, None);
    assert!(ends(&before).is_empty());

    let term = candidate.campaign().await.expect("a term");
    let begun = candidate.metrics();
    assert!(begun.leads);
    assert_eq!(begun.epoch, Some(term.epoch().get()));
    assert_eq!(begun.renewals.ok, 0);
    let sent = begun.last_renewal_unix_ms.expect("the acquire");
    assert_eq!(begun.deadline_unix_ms, Some(sent + RENEW_DEADLINE_MS));

    store.advance(seconds(30)).await;
    let led = candidate.metrics();
    assert!((4..=8).contains(&led.renewals.ok), "{led:?}");
    assert_eq!(led.renewal_duration.count, led.renewals.ok);
    let renewed = led.last_renewal_unix_ms.expect("a renewal");
    assert!(
        (sent + 20_000..=sent + 30_000).contains(&renewed),
        "{led:?}"
    );
    assert_eq!(led.deadline_unix_ms, Some(renewed + RENEW_DEADLINE_MS));
    assert_eq!((led.renewals.refused, led.renewals.no_answer), (0, 0));
    assert_eq!((led.at_risk, led.overruns, led.suspensions), (0, 0, 0));

    term.resign().await;
    let ended = candidate.metrics();
    assert!(!ended.leads);
    assert_eq!((ended.epoch, ended.deadline_unix_ms), (led.epoch, None));
    assert_eq!(ended.last_renewal_unix_ms, Some(renewed));
    assert_eq!(ended.renewals, led.renewals);
    assert_eq!(ends(&ended), [(EndReason::Resigned, 1)]);
}

#[tokio::test]
async fn renewals_without_an_answer_put_the_term_at_risk_once_each_time() {
    let store = TestStore::start().expect("a store");
    let candidate = store.candidate(config());
    let term = candidate.campaign().await.expect("a term");
    for times in [1, 2] {
        // The renew deadline is 10 s after the last renewal.
        let before = candidate.metrics().renewals.ok;
        while candidate.metrics().renewals.ok == before {
            store.advance(Duration::from_millis(100)).await;
        }
        store.set_reachable(false);
        store.advance(seconds(8)).await;
        let away = candidate.metrics();
        assert!(away.renewals.no_answer >= times, "{away:?}");
        assert_eq!((away.at_risk, away.renewals.refused), (times, 0));
        assert!(term.is_at_risk());
        store.set_reachable(true);
        store.advance(seconds(2)).await;
        assert!(candidate.metrics().renewals.ok > before + 1);
    }
    store.set_reachable(false);
    store.advance(seconds(11)).await;
    let over = candidate.metrics();
    assert!(!over.leads && !term.is_valid());
    drop(term);
    store.advance(seconds(10)).await;
    let ended = candidate.metrics();
    assert_eq!(ends(&ended), [(EndReason::RenewDeadline, 1)]);
    assert_eq!(ended.at_risk, 3);
}

#[tokio::test]
async fn a_broken_lease_is_a_refused_renewal() {
    let store = TestStore::start().expect("a store");
    let candidate = store.candidate(config());
    let term = candidate.campaign().await.expect("a term");
    assert!(store.break_lease(term.election(), Duration::ZERO));
    store.advance(seconds(6)).await;
    let broken = candidate.metrics();
    assert_eq!((broken.renewals.refused, broken.renewals.no_answer), (1, 0));
    assert!(!broken.leads);
    drop(term);
    store.advance(seconds(1)).await;
    assert_eq!(ends(&candidate.metrics()), [(EndReason::Broken, 1)]);
}

#[tokio::test]
async fn a_pause_of_a_second_is_a_suspension_and_a_longer_one_ends_the_term() {
    let store = TestStore::start().expect("a store");
    let candidate = store.candidate(config());
    store.jump(seconds(20)).await;
    assert_eq!(candidate.metrics().suspensions, 0, "it did not lead");
    let term = candidate.campaign().await.expect("a term");
    store.jump(Duration::from_millis(900)).await;
    assert_eq!(candidate.metrics().suspensions, 0);
    store.jump(seconds(2)).await;
    assert_eq!(candidate.metrics().suspensions, 1);
    assert!(term.is_valid());
    store.jump(seconds(20)).await;
    assert_eq!(candidate.metrics().suspensions, 2);
    drop(term);
    store.advance(seconds(1)).await;
    assert_eq!(ends(&candidate.metrics()), [(EndReason::Suspended, 1)]);
    // The release of a lease may take long, and is no suspension.
    assert_eq!(candidate.metrics().suspensions, 2);
}

#[tokio::test]
async fn a_slow_release_is_not_a_suspension() {
    let store = TestStore::start().expect("a store");
    let candidate = store.candidate(config());
    let term = candidate.campaign().await.expect("a term");
    store.set_reachable(false);
    drop(term);
    // The candidate waits for the answer to its release.
    store.advance(Duration::from_millis(300)).await;
    store.jump(Duration::from_millis(1_500)).await;
    store.advance(seconds(10)).await;
    let metrics = candidate.metrics();
    assert_eq!(ends(&metrics), [(EndReason::Resigned, 1)]);
    assert_eq!(metrics.suspensions, 0);
}

#[tokio::test]
async fn the_time_of_a_stop_counts_and_a_task_that_never_stops_overruns() {
    let store = TestStore::start().expect("a store");
    let candidate = store.candidate(config());
    let term = candidate.campaign().await.expect("a term");
    Leadership::resign(&term);
    store.advance(seconds(2)).await;
    drop(term);
    store.advance(seconds(1)).await;
    let stopped = candidate.metrics().stop_duration;
    assert_eq!(stopped.count, 1);
    assert!((1.9..2.2).contains(&stopped.sum_seconds), "{stopped:?}");

    // A task that ends by itself was not asked to stop.
    for _ in 0..2 {
        drop(candidate.campaign().await.expect("a term"));
        store.advance(seconds(1)).await;
        assert_eq!(candidate.metrics().stop_duration.count, 1);
    }

    let term = candidate.campaign().await.expect("a term");
    store.set_reachable(false);
    store.advance(seconds(13)).await;
    assert_eq!(candidate.metrics().overruns, 0);
    store.advance(seconds(5)).await;
    assert_eq!(candidate.metrics().overruns, 1);
    drop(term);
}

#[tokio::test]
async fn each_end_counts_under_its_reason() {
    let store = TestStore::start().expect("a store");
    let unhealthy = HealthCheck::new(async || Err("broken"));
    let candidate = store.candidate(config().with_health_check(unhealthy));
    let mut expected = Vec::new();
    type Case = (EndReason, fn(Leadership) -> Task);
    let cases: [Case; 6] = [
        (EndReason::Resigned, |leadership| {
            leadership.resign();
            Box::pin(std::future::pending())
        }),
        (EndReason::TaskReturned, |_| Box::pin(async { Ok(()) })),
        (EndReason::TaskFailed, |_| {
            Box::pin(async { Err("no ledger") })
        }),
        (EndReason::TaskPanicked, |_| {
            Box::pin(async { panic!("planted") })
        }),
        (EndReason::HandedOver, |leadership| {
            leadership.hand_over("two".parse().expect("an id"));
            Box::pin(std::future::pending())
        }),
        (EndReason::Unhealthy, |_| Box::pin(std::future::pending())),
    ];
    for (reason, task) in cases {
        let term = candidate.run_one_term(std::future::pending(), task);
        let term = store.advance_until(term).await.expect("a term");
        assert_eq!(term.expect("a term").reason, reason);
        expected.push((reason, 1));
        expected.sort_by_key(|(reason, _)| EndReason::ALL.iter().position(|it| it == reason));
        assert_eq!(ends(&candidate.metrics()), expected);
    }
}

/// A leader's task.
type Task = Pin<Box<dyn Future<Output = Result<(), &'static str>> + Send>>;

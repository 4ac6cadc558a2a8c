//! Waiters, which are granted the lease in order, promptly, and only while they are connected.

use std::time::Duration;

use crate::common::{SOON, answer, assert_ok, assert_refused, id, in_memory, outcome};
use serde_json::json;
use tokio::time::{Instant, sleep};

/// The maximum delay of a grant in these tests, on a machine that may be busy. Benchmarks measure
/// the delays that users can expect.
const PROMPTLY: Duration = Duration::from_millis(200);

#[tokio::test]
async fn waiters_are_granted_in_order_of_arrival() {
    let api = in_memory().api;
    assert_ok(&api.acquire("job", 1).await);
    let mut waiting = Vec::new();
    for number in 2..=5 {
        waiting.push(api.waiting("job", number, &json!({})));
        api.queue_of("job", u64::from(number) - 1).await;
    }
    for (number, next) in (2..).zip(waiting) {
        let released = Instant::now();
        assert_ok(&api.release("job", number - 1).await);
        let (granted, at) = outcome(next).await;
        assert_ok(&granted);
        assert_eq!(granted.1["lease_id"], id(number));
        assert!(at.duration_since(released) < PROMPTLY);
    }
}

#[tokio::test]
async fn an_expired_lease_goes_to_the_next_waiter_at_once_and_not_before() {
    let api = in_memory().api;
    let asked = Instant::now();
    let body = json!({"holder": "c1", "duration_ms": 1_000, "lease_id": id(1)});
    assert_ok(&api.post("job", "acquire", body).await);
    let answered = Instant::now();
    let next = api.waiting("job", 2, &json!({}));
    let (granted, at) = outcome(next).await;
    assert_ok(&granted);
    let lease = Duration::from_secs(1);
    assert!(
        at.duration_since(asked) >= lease,
        "{:?}",
        at.duration_since(asked)
    );
    assert!(
        at.duration_since(answered) < lease + PROMPTLY,
        "{:?}",
        at.duration_since(answered)
    );
}

#[tokio::test]
async fn a_disconnected_waiter_is_skipped() {
    let api = in_memory().api;
    assert_ok(&api.acquire("job", 1).await);
    let gone = api.waiting("job", 2, &json!({}));
    api.queue_of("job", 1).await;
    let stays = api.waiting("job", 3, &json!({}));
    api.queue_of("job", 2).await;
    // The request is dropped, so its connection is closed.
    gone.abort();
    api.queue_of("job", 1).await;
    assert_ok(&api.release("job", 1).await);
    assert_ok(&outcome(stays).await.0);
}

#[tokio::test]
async fn a_repeated_acquire_with_the_same_lease_id_keeps_the_position_in_the_queue() {
    let api = in_memory().api;
    assert_ok(&api.acquire("job", 1).await);
    let lost = api.waiting("job", 2, &json!({}));
    api.queue_of("job", 1).await;
    let second = api.waiting("job", 3, &json!({}));
    api.queue_of("job", 2).await;
    let again = api.waiting("job", 2, &json!({}));
    assert_refused(&outcome(lost).await.0, 409, "lease_held");
    api.queue_of("job", 2).await;
    assert_ok(&api.release("job", 1).await);
    assert_ok(&outcome(again).await.0);
    assert!(!second.is_finished());
}

#[tokio::test]
async fn a_waiter_that_asks_again_after_its_request_has_ended_keeps_its_place() {
    let api = in_memory().api;
    assert_ok(&api.acquire("job", 1).await);
    // The time of one request is up, and the connection of another one is cut.
    let timed_out = api.waiting("job", 2, &json!({"wait_ms": 300}));
    api.queue_of("job", 1).await;
    let cut = api.waiting("job", 3, &json!({}));
    api.queue_of("job", 2).await;
    let last = api.waiting("job", 4, &json!({}));
    api.queue_of("job", 3).await;
    assert_refused(&outcome(timed_out).await.0, 409, "lease_held");
    cut.abort();
    api.queue_of("job", 1).await;

    let third = api.waiting("job", 3, &json!({}));
    api.queue_of("job", 2).await;
    let second = api.waiting("job", 2, &json!({}));
    api.queue_of("job", 3).await;
    let waiters = api.get("job/waiters").await.1["waiters"].clone();
    let names: Vec<_> = (0..3)
        .map(|place| waiters[place]["holder"].clone())
        .collect();
    assert_eq!(names, ["c2", "c3", "c4"]);
    for (holder, next) in [(1, second), (2, third), (3, last)] {
        assert_ok(&api.release("job", holder).await);
        assert_ok(&outcome(next).await.0);
    }
}

#[tokio::test]
async fn the_view_shows_a_lock_delay_and_a_reservation_and_a_break_at_once_ends_both() {
    let api = in_memory().api;
    let body =
        json!({"holder": "c1", "duration_ms": 60_000, "lease_id": id(1), "lock_delay_ms": 300_000});
    assert_ok(&api.post("job", "acquire", body).await);
    let within = json!({"to": "c9", "within_ms": 60_000, "force": true});
    assert_ok(&api.post("job", "handover", within).await);
    let at_once = json!({"break_period_ms": 0});
    let broken = api.post("job", "break", at_once.clone()).await.1;
    let left = |field: &str| broken[field].as_u64().unwrap();
    assert!(
        (290_000..=300_000).contains(&left("lock_delay_remaining_ms")),
        "{broken}"
    );
    assert!(
        (350_000..=360_000).contains(&left("reserved_remaining_ms")),
        "{broken}"
    );
    assert_eq!(broken["reserved_for"], "c9");
    assert_refused(&api.acquire("job", 2).await, 409, "lease_held");
    let waiting = api.waiting("job", 3, &json!({}));
    api.queue_of("job", 1).await;
    let lifted = api.post("job", "break", at_once).await;
    assert_ok(&lifted);
    assert_eq!(lifted.1["state"], "broken");
    let granted = outcome(waiting).await.0;
    assert_ok(&granted);
    for field in [
        "lock_delay_remaining_ms",
        "reserved_for",
        "reserved_remaining_ms",
    ] {
        assert!(lifted.1.get(field).is_none() && granted.1.get(field).is_none());
    }

    // The reservation of a lease that its holder has handed over.
    let hand_over = json!({"lease_id": id(3), "to": "c9", "within_ms": 60_000, "force": true});
    assert_ok(&api.post("job", "handover", hand_over).await);
    assert_ok(
        &api.post("job", "break", json!({"break_period_ms": 0}))
            .await,
    );
    assert_ok(&api.acquire("job", 4).await);
}

#[tokio::test]
async fn a_waiter_whose_time_is_up_learns_the_current_holder() {
    let api = in_memory().api;
    assert_ok(&api.acquire("job", 1).await);
    let asked = Instant::now();
    let (refused, at) = outcome(api.waiting("job", 2, &json!({"wait_ms": 200}))).await;
    assert_refused(&refused, 409, "lease_held");
    assert_eq!(refused.1["holder"], "c1");
    assert!(at.duration_since(asked) >= Duration::from_millis(200));
    assert_eq!(api.get("job").await.1["waiters"], 0);
}

#[tokio::test]
async fn a_later_request_is_not_granted_before_waiters() {
    let api = in_memory().api;
    let body = json!({"holder": "c1", "duration_ms": 1_000, "lease_id": id(1)});
    assert_ok(&api.post("job", "acquire", body).await);
    let first = api.waiting("job", 2, &json!({}));
    api.queue_of("job", 1).await;
    // Another client sends requests continuously, also in the moment after the expiry.
    let until = Instant::now() + SOON;
    while !first.is_finished() {
        assert!(Instant::now() < until);
        assert_refused(&api.acquire("job", 3).await, 409, "lease_held");
    }
    assert_ok(&outcome(first).await.0);
}

#[tokio::test]
async fn a_long_poll_answers_when_the_lease_changes() {
    let api = in_memory().api;
    let (_, view) = api.acquire("job", 1).await;
    let poll = |after: u64, wait_ms: u64| {
        let url = format!("{}?after={after}&wait_ms={wait_ms}", api.url("job", ""));
        let http = api.http.clone();
        tokio::spawn(async move { answer(http.get(url).send().await.unwrap()).await })
    };
    let revision = view["revision"].as_u64().unwrap();
    assert_eq!(outcome(poll(0, 60_000)).await.1["revision"], revision);

    let asked = Instant::now();
    assert_eq!(outcome(poll(revision, 200)).await.1["revision"], revision);
    assert!(asked.elapsed() >= Duration::from_millis(200));

    let polling = poll(revision, 60_000);
    assert_ok(&api.renew("job", 1).await);
    sleep(Duration::from_millis(20)).await;
    assert!(!polling.is_finished());
    assert_ok(&api.release("job", 1).await);
    assert_eq!(outcome(polling).await.1["state"], "available");
}

#[tokio::test]
async fn a_long_poll_answers_when_the_lease_expires() {
    let api = in_memory().api;
    let asked = Instant::now();
    let body = json!({"holder": "c1", "duration_ms": 1_000, "lease_id": id(1)});
    let (_, view) = api.post("job", "acquire", body).await;
    let url = format!(
        "{}?after={}&wait_ms=60000",
        api.url("job", ""),
        view["revision"]
    );
    let (status, expired) = answer(api.http.get(url).send().await.unwrap()).await;
    let took = asked.elapsed();
    assert_eq!((status, &expired["state"]), (200, &json!("expired")));
    assert!(expired["revision"].as_u64() > view["revision"].as_u64());
    assert!(
        took >= Duration::from_secs(1) && took < Duration::from_secs(1) + PROMPTLY,
        "{took:?}"
    );
}

#[tokio::test]
async fn a_long_poll_ends_when_the_lease_is_deleted() {
    let api = in_memory().api;
    assert_ok(&api.acquire("job", 1).await);
    let (_, view) = api.release("job", 1).await;
    let url = format!(
        "{}?after={}&wait_ms=60000",
        api.url("job", ""),
        view["revision"]
    );
    let http = api.http.clone();
    let polling = tokio::spawn(async move { answer(http.get(url).send().await.unwrap()).await });
    sleep(Duration::from_millis(20)).await;
    assert_eq!(api.delete("job").await.0, 204);
    assert_refused(&outcome(polling).await, 404, "unknown_lease");
}

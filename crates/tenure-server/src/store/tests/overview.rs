//! The overview of all leases: the state that it shows, and the work that it makes.

use tenure_core::wire::{LookReason, Overview, OverviewRow};

use super::*;
use crate::config::StoreConfig;
use crate::store::OverviewFilter;

fn all() -> OverviewFilter {
    OverviewFilter {
        text: String::new(),
        namespace: None,
        state: None,
        needs_look: false,
        limit: 200,
    }
}

/// Returns an overview that no earlier one could have shown.
async fn fresh(store: &Store, filter: &OverviewFilter) -> Overview {
    store.inner.overviews.forget();
    store.overview(filter, |_| vec![""]).await.unwrap()
}

async fn row(store: &Store) -> OverviewRow {
    let mut overview = fresh(store, &all()).await;
    assert_eq!(overview.leases, 1, "{overview:?}");
    overview.elections.remove(0)
}

fn in_memory() -> Store {
    Store::open(StoreConfig::memory()).unwrap()
}

/// Acquires this lease for `time`, with this lock delay.
async fn hold(store: &Store, lease: &str, time: Duration, lock_delay: Duration) {
    let mut request = queued(1, Duration::ZERO);
    request.request.duration = LeaseDuration::Fixed(time);
    request.request.lock_delay = lock_delay;
    let key = LeaseKey::of_text(lease);
    store.acquire(&key, &request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overview_shows_what_is_on_disk_and_does_not_wait_for_the_rest() {
    let (store, script) = scripted();
    let granted = acquire(&store, 1, Duration::ZERO);
    on_engine(&script, Script::batch).await;
    assert_eq!(fresh(&store, &all()).await.leases, 0);
    script.decide(Ok(()));
    answer(granted).await.unwrap();
    assert_eq!(row(&store).await.holder.as_deref(), Some("candidate-1"));

    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::batch).await;
    assert_eq!(row(&store).await.holder.as_deref(), Some("candidate-1"));
    script.decide(Err(AppendError::DiskFull("no space".into())));
    refusal(released).await;
    assert_eq!(row(&store).await.holder.as_deref(), Some("candidate-1"));

    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::commit).await;
    answer(released).await.unwrap();
    let free = row(&store).await;
    assert_eq!((free.state, free.holder), (State::Available, None));
    assert!(free.epoch.is_some() && free.ended_at.is_some());
}

#[tokio::test]
async fn viewers_share_a_walk_for_a_second_and_while_walks_rest() {
    let store = in_memory();
    let overviews = &store.inner.overviews;
    hold(&store, "ns/one", SOON, Duration::ZERO).await;
    let seen = async || store.overview(&all(), |_| vec![""]).await.unwrap().leases;
    assert_eq!(seen().await, 1);
    hold(&store, "ns/two", SOON, Duration::ZERO).await;
    overviews.rest(&store.inner.clock, Duration::from_secs(3_600));
    assert_eq!(seen().await, 1, "the walks rest");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(seen().await, 1, "the walks rest, and the snapshot is old");
    overviews.rest(&store.inner.clock, Duration::ZERO);
    let again = async {
        while seen().await != 2 {
            tokio::time::sleep(A_MOMENT).await;
        }
    };
    timeout(SOON, again).await.expect("a second walk");
}

#[tokio::test]
async fn walks_take_a_twentieth_of_a_processor_at_most() {
    let store = in_memory();
    for number in 0..2_000 {
        let name = format!("ns/{number}");
        hold(&store, &name, SOON, Duration::ZERO).await;
    }
    fresh(&store, &all()).await;
    let (cost, ended, until) = store.inner.overviews.last_walk();
    assert!(cost > Duration::ZERO);
    assert!(until.since(ended) >= cost * 19, "{cost:?}");
    // A first walk of a namespace also waits until the rest is over.
    store.snapshot_of(Some("ns".into())).await.unwrap();
    assert!(store.inner.clock.now() >= until);
}

#[tokio::test]
async fn an_overview_of_too_many_leases_needs_a_namespace() {
    let store = in_memory();
    for number in 0..=20_000 {
        let name = format!("{}/{number}", if number < 20_000 { "big" } else { "small" });
        let key = LeaseKey::of_text(&name);
        store
            .acquire(&key, &queued(1, Duration::ZERO))
            .await
            .unwrap();
    }
    let overview = store.overview(&all(), |_| vec![""]).await.unwrap();
    assert!(overview.too_many && overview.elections.is_empty());
    assert_eq!(overview.leases, 20_001);
    for (namespace, leases) in [("big", 20_000), ("small", 1), ("none", 0)] {
        let filter = OverviewFilter {
            namespace: Some(namespace.parse().unwrap()),
            ..all()
        };
        let overview = store.overview(&filter, |_| vec![""]).await.unwrap();
        assert!(!overview.too_many);
        assert_eq!((overview.leases, overview.matching), (leases, leases));
        assert_eq!(overview.elections.len() as u64, leases.min(200));
    }
    // A caller who may read few leases does not need to name a namespace.
    let few = |namespace: &str| match namespace {
        "small" => vec![""],
        _ => vec![],
    };
    let overview = store.overview(&all(), few).await.unwrap();
    assert_eq!((overview.too_many, overview.leases), (false, 1));
}

#[tokio::test]
async fn a_candidate_that_waits_by_repeated_requests_has_waited_since_the_first_one() {
    const WAIT: Duration = Duration::from_secs(1);
    let store = in_memory();
    hold(&store, "ns/lease", SOON * 6, Duration::ZERO).await;
    let waited = async || {
        let list = store.waiters(&key()).await.unwrap().waiters;
        list.first().map(|waiter| waiter.waiting_ms)
    };
    for round in 0..3 {
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { store.acquire(&key(), &queued(2, WAIT)).await }
        });
        // Without the earlier requests, no candidate has waited for so long.
        let before = round * 1_000;
        let longer = async {
            while waited().await.is_none_or(|waited| waited <= before) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(SOON, longer).await.expect("a longer wait");
        assert!(waiting.await.unwrap().is_err());
    }
}

#[tokio::test]
async fn a_free_lease_with_a_waiter_needs_a_look_after_its_duration() {
    let store = in_memory();
    let duration = Duration::from_secs(1);
    hold(&store, "ns/lease", duration, SOON * 6).await;
    let waiting = acquire(&store, 2, SOON);
    let mut seen = Vec::new();
    let flagged = async {
        loop {
            let row = row(&store).await;
            if row.look == [LookReason::NobodyLeads] {
                return row;
            }
            seen.push((row.state, row.look));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let row = timeout(SOON, flagged).await.expect("a reason");
    assert_eq!((row.state, row.waiters), (State::Expired, 1));
    assert!(row.ended_at.is_some() && row.granted_at.is_none());
    // The lock delay alone is no reason.
    let is_free = |(state, look): &(State, Vec<_>)| *state == State::Expired && look.is_empty();
    assert!(seen.iter().any(is_free), "{seen:?}");
    waiting.abort();
}

#[tokio::test]
async fn an_expected_lease_has_a_row_before_its_first_term() {
    let store = in_memory();
    store.expect_leaders(&[key(), LeaseKey::of_text("other/lease")]);
    hold(&store, "other/lease", SOON, Duration::ZERO).await;
    let overview = fresh(&store, &all()).await;
    let seen = overview.elections.iter();
    let seen: Vec<_> = seen
        .map(|row| (&*row.namespace, row.state, &*row.look))
        .collect();
    let expected = [
        ("ns", State::Available, &[LookReason::Expected][..]),
        ("other", State::Leased, &[]),
    ];
    assert_eq!(seen, expected);
    assert_eq!((overview.leases, overview.needs_look), (2, 1));
    hold(&store, "ns/lease", SOON, Duration::ZERO).await;
    let overview = fresh(&store, &all()).await;
    assert_eq!((overview.leases, overview.needs_look), (2, 0));
}

#[tokio::test]
async fn three_terms_in_a_short_time_are_a_reason() {
    let store = in_memory();
    for (number, expected) in [(1, 1), (2, 2), (3, 3)] {
        let request = queued(number, Duration::ZERO);
        store.acquire(&key(), &request).await.unwrap();
        // A repeated request and a renewal begin no term.
        store.acquire(&key(), &request).await.unwrap();
        let renewal = Operation::Renew(id(number), None);
        store.operate(&key(), &renewal, None).await.unwrap();
        let row = row(&store).await;
        assert_eq!(row.recent_terms, expected);
        assert_eq!(row.look.contains(&LookReason::Flapping), expected == 3);
        let release = Operation::Release(id(number));
        store.operate(&key(), &release, None).await.unwrap();
    }
}

#[tokio::test]
async fn other_requests_have_a_turn_while_the_leases_of_a_namespace_are_counted() {
    let store = in_memory();
    for number in 0..1_200 {
        let lease = format!("ns/{}{number}", number % 2);
        hold(&store, &lease, Duration::from_secs(3_600), Duration::ZERO).await;
    }
    let others = tokio::spawn(async {});
    let counted = store.count("ns", &["0", "1"]).await;
    assert_eq!(counted, 1_200);
    assert!(others.is_finished());
    assert_eq!(store.count("ns", &["11"]).await, 156);
    assert_eq!(store.count("other", &[""]).await, 0);
}

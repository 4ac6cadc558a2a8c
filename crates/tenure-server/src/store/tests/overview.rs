//! The overview of all leases: the state that it shows, and the work that it makes.

use tenure_core::wire::{Overview, OverviewRow};

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

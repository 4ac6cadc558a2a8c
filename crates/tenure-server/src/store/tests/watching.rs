//! The events that watchers receive, and the times at which they receive them.

use tenure_core::lease::{Record, Rules, Stored, apply};
use tenure_core::wire::EventKind;
use tenure_core::{Instant, UnixMillis};

use super::*;
use crate::config::StoreConfig;
use crate::events::Topic;
use crate::store::WatchItem;
use crate::store::watch::Watcher;
use crate::timer::ENDS_AT_ONCE;

fn watch(store: &Store) -> Watcher {
    store
        .watch(&Tenant::Unknown, Topic::Lease(key()), false, None)
        .unwrap()
}

/// Returns the kind and the revision of the next event; `None` for a reset.
async fn next(watcher: &mut Watcher) -> Option<(EventKind, u64)> {
    let heard = timeout(SOON, watcher.next()).await.expect("an event");
    match heard.expect("the store is open") {
        WatchItem::Event(told) => Some((told.kind(), told.change.revision)),
        WatchItem::Reset(_) => None,
    }
}

async fn expect_nothing(watcher: &mut Watcher) {
    assert!(timeout(A_MOMENT, watcher.next()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_gets_only_durable_changes() {
    let (store, script) = scripted();
    let mut watcher = watch(&store);
    assert_eq!(next(&mut watcher).await, None);
    let granted = acquire(&store, 1, Duration::ZERO);
    script.batch();
    expect_nothing(&mut watcher).await;
    script.decide(Err(AppendError::DiskFull("no space".into())));
    refusal(granted).await;
    expect_nothing(&mut watcher).await;

    let granted = acquire(&store, 2, Duration::ZERO);
    script.commit();
    answer(granted).await.unwrap();
    assert_eq!(next(&mut watcher).await, Some((EventKind::Granted, 2)));
    // A later watcher gets the same event from the ring.
    let mut later = store
        .watch(&Tenant::Unknown, Topic::Lease(key()), false, Some(0))
        .unwrap();
    assert_eq!(next(&mut later).await, Some((EventKind::Granted, 2)));
    expect_nothing(&mut later).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_saw_an_uncommitted_change_is_not_published() {
    let (store, script) = scripted();
    let granted = acquire(&store, 1, Duration::ZERO);
    script.commit();
    answer(granted).await.unwrap();
    let mut watcher = store
        .watch(&Tenant::Unknown, Topic::Lease(key()), true, Some(1))
        .unwrap();
    let changed = operate(&store, Operation::SetMetadata(id(1), Metadata::new()));
    script.batch();
    let renewed = operate(&store, Operation::Renew(id(1), None));
    expect_nothing(&mut watcher).await;
    script.decide(Ok(()));
    answer(changed).await.unwrap();
    answer(renewed).await.unwrap();
    assert_eq!(next(&mut watcher).await, Some((EventKind::Metadata, 2)));
    expect_nothing(&mut watcher).await;
    answer(operate(&store, Operation::Renew(id(1), None)))
        .await
        .unwrap();
    assert_eq!(next(&mut watcher).await, Some((EventKind::Renewed, 2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undone_expiry_is_published_when_the_disk_has_space_again() {
    let (store, script) = scripted();
    let mut request = queued(1, Duration::ZERO);
    request.request.duration = LeaseDuration::Fixed(Duration::from_millis(50));
    let granted = tokio::spawn({
        let store = store.clone();
        async move { store.acquire(&key(), &request).await }
    });
    script.commit();
    answer(granted).await.unwrap();
    let mut watcher = store
        .watch(&Tenant::Unknown, Topic::Namespace("ns".into()), false, None)
        .unwrap();
    assert_eq!(next(&mut watcher).await, None);
    let keep = tokio::task::spawn_blocking(move || {
        script.refuse();
        script.commit();
        script
    });
    let (kind, _) = next(&mut watcher).await.unwrap();
    assert_eq!(kind, EventKind::Expired);
    keep.await.unwrap();
}

fn watch_all(store: &Store) -> Watcher {
    let namespace = Topic::Namespace("ns".into());
    store
        .watch(&Tenant::Unknown, namespace, false, None)
        .unwrap()
}

/// Acquires a lease of this name for `time`. Returns the revision.
async fn hold(store: &Store, lease: &str, time: Duration) -> u64 {
    let mut request = queued(1, Duration::ZERO);
    request.request.duration = LeaseDuration::Fixed(time);
    let key = LeaseKey::of_text(&format!("ns/{lease}"));
    store.acquire(&key, &request).await.unwrap().revision
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_that_change_between_two_watchers_expire_in_the_stream() {
    let store = Store::open(StoreConfig::memory()).unwrap();
    let ms = Duration::from_millis;
    hold(&store, "renewed", ms(1_000)).await;
    let after = hold(&store, "held", ms(2_000)).await;
    drop(watch_all(&store));
    // There is no watcher while one lease is acquired. There is none either while the timer, armed
    // too early, reads a lease that was renewed.
    hold(&store, "acquired", ms(2_000)).await;
    tokio::time::sleep(ms(300)).await;
    let renewed = LeaseKey::of_text("ns/renewed");
    let renewal = Operation::Renew(id(1), None);
    store.operate(&renewed, &renewal, None).await.unwrap();
    tokio::time::sleep(ms(800)).await;
    let topic = Topic::Namespace("ns".into());
    let mut watcher = store
        .watch(&Tenant::Unknown, topic, false, Some(after))
        .unwrap();
    let mut expired = Vec::new();
    while expired.len() < 3 {
        let heard = timeout(SOON, watcher.next()).await.expect("an event");
        let Some(WatchItem::Event(told)) = heard else {
            panic!("no event");
        };
        if told.kind() == EventKind::Expired {
            expired.push(told.change.key.lease().to_owned());
        }
    }
    expired.sort_unstable();
    assert_eq!(expired, ["acquired", "held", "renewed"]);
}

/// Returns a lease that is held for half a second after the start of a store.
fn brief() -> Stored {
    let (mut record, now) = (Record::default(), Instant::default());
    let mut request = queued(9, Duration::ZERO).request;
    request.duration = LeaseDuration::Fixed(Duration::from_millis(500));
    let acquire = Operation::Acquire(request, UnixMillis::new(1));
    apply(&mut record, &acquire, now, &Rules::NATIVE).unwrap();
    record.store(now)
}

/// Waits until a change of this lease is in the commit queue.
async fn in_queue(store: &Store, key: &LeaseKey) {
    let is_queued = async {
        while store.inner.commit_queue.last_durable(key).is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(SOON, is_queued).await.expect("a change");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_go_before_ends_for_which_no_request_waits() {
    const LEASES: usize = 4 * ENDS_AT_ONCE;
    let name = |number| LeaseKey::of_text(&format!("ns/{number}"));
    let leases = (0..LEASES).map(|number| (name(number), brief(), 1));
    let (store, script) = scripted_with(Loaded {
        revision: 1,
        leases: leases.collect(),
        ..Loaded::default()
    });
    let waited = tokio::spawn({
        let store = store.clone();
        async move { store.acquire(&name(7), &queued(2, SOON)).await }
    });
    queue_of(&store, 1).await;

    // All leases end at once. Some ends are being written, and a waiter has got its lease meanwhile.
    let mut changes = on_engine(&script, Script::batch).await;
    in_queue(&store, &name(7)).await;
    tokio::time::sleep(A_MOMENT).await;
    let granted = acquire(&store, 1, Duration::ZERO);
    in_queue(&store, &key()).await;
    script.decide(Ok(()));
    let is_request = |change: &LeaseChange| change.key == key();
    while !changes.iter().any(is_request) {
        changes.extend(on_engine(&script, Script::commit).await);
    }
    answer(granted).await.unwrap();
    answer(waited).await.unwrap();
    let before = changes.iter().position(is_request).unwrap();
    assert!(
        before <= ENDS_AT_ONCE + 2,
        "{before} changes went before a request"
    );

    // Each end is written once.
    while changes.len() < LEASES + 2 {
        changes.extend(on_engine(&script, Script::commit).await);
    }
    let ended = changes
        .iter()
        .filter(|change| change.cause.kind() == EventKind::Expired);
    assert_eq!(ended.count(), LEASES);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_store_ends_all_watchers_and_they_leave_nothing_behind() {
    let (store, script) = scripted();
    let mut watchers = [watch(&store), watch(&store)];
    for watcher in &mut watchers {
        assert_eq!(next(watcher).await, None);
    }
    drop(acquire(&store, 1, Duration::ZERO));
    script.batch();
    script.decide(Err(AppendError::Unknown("I/O error".into())));
    for watcher in &mut watchers {
        assert!(timeout(SOON, watcher.next()).await.unwrap().is_none());
    }
    drop(watchers);
    assert_eq!(store.inner.watching.taken(), 0);
    assert!(!store.inner.events.topics.is_any_watched());
}

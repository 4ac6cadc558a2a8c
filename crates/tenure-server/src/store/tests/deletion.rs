//! Deletions, and leases that are created again.

use crate::clock;
use crate::events::{Subscription, Topic};
use crate::store::observe::IfMissing;

use super::*;

/// Returns a store with one lease. Its holder has released it, and the release is durable.
async fn released() -> (Store, Script) {
    let (store, script) = held().await;
    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::commit).await;
    answer(released).await.unwrap();
    (store, script)
}

fn delete(store: &Store) -> JoinHandle<Result<(), Problem>> {
    let store = store.clone();
    tokio::spawn(async move { store.delete(&key()).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_is_visible_only_when_it_is_durable_and_not_if_it_is_undone() {
    let (store, script) = released().await;
    let undone = delete(&store);
    on_engine(&script, Script::batch).await;
    let read = view(&store);
    tokio::time::sleep(A_MOMENT).await;
    assert!(!read.is_finished());
    script.decide(Err(AppendError::DiskFull("no space".into())));
    assert_eq!(undone.await.unwrap().unwrap_err().code, Code::DiskFull);
    assert!(answer(read).await.is_ok());

    let deleted = delete(&store);
    on_engine(&script, Script::commit).await;
    deleted.await.unwrap().unwrap();
    assert_eq!(refusal(view(&store)).await, Code::UnknownLease);
    assert!(store.inner.table.lock(&key()).is_empty());
}

#[tokio::test]
async fn a_deletion_moves_the_epochs_of_its_namespace_alone_and_of_no_lease_that_exists() {
    let store = Store::open(StoreConfig::memory()).unwrap();
    let wall = clock::wall().get();
    let far = Epoch::new(wall + Epoch::ASKED_AHEAD - 60_000);
    let granted = async |name: &str, number, min_epoch| {
        let mut queued = queued(number, Duration::ZERO);
        queued.request.min_epoch = min_epoch;
        let key = LeaseKey::of_text(name);
        store.acquire(&key, &queued).await.unwrap().epoch
    };
    let old = granted("a/old", 1, None).await;
    assert!(old < Some(wall + 60_000));
    assert_eq!(granted("a/gone", 2, far).await, far.map(Epoch::get));
    let gone = LeaseKey::of_text("a/gone");
    let release = Operation::Release(id(2));
    store.operate(&gone, &release, None).await.unwrap();
    store.delete(&gone).await.unwrap();
    for (name, number) in [("a/gone", 3), ("a/new", 4)] {
        assert!(granted(name, number, None).await > far.map(Epoch::get));
    }
    assert!(granted("b/new", 5, None).await < Some(wall + 60_000));
    let old_key = LeaseKey::of_text("a/old");
    let release = Operation::Release(id(1));
    store.operate(&old_key, &release, None).await.unwrap();
    assert!(granted("a/old", 6, None).await < Some(wall + 60_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_does_not_make_retired_lease_ids_valid_again() {
    let (store, script) = released().await;
    let deleted = delete(&store);
    on_engine(&script, Script::commit).await;
    deleted.await.unwrap().unwrap();
    assert_eq!(refusal(view(&store)).await, Code::UnknownLease);
    for _ in 0..3 {
        let late = acquire(&store, 1, Duration::ZERO);
        assert_eq!(refusal(late).await, Code::LeaseIdRetired);
        assert_eq!(refusal(view(&store)).await, Code::UnknownLease);
    }
    assert!(store.inner.table.lock(&key()).is_empty());

    // The grant to another id writes the whole list. If the grant is undone, the list stays.
    let next = acquire(&store, 2, Duration::ZERO);
    on_engine(&script, Script::refuse).await;
    assert_eq!(refusal(next).await, Code::DiskFull);
    let next = acquire(&store, 2, Duration::ZERO);
    let batch = on_engine(&script, Script::commit).await;
    answer(next).await.unwrap();
    let Content::Lease(stored) = &batch[0].content else {
        panic!("{batch:?}");
    };
    assert_eq!(stored.retired, [id(1)]);
    let late = acquire(&store, 1, Duration::ZERO);
    assert_eq!(refusal(late).await, Code::LeaseIdRetired);

    // The list also survives a second deletion.
    let released = operate(&store, Operation::Release(id(2)));
    on_engine(&script, Script::commit).await;
    answer(released).await.unwrap();
    let deleted = delete(&store);
    on_engine(&script, Script::commit).await;
    deleted.await.unwrap().unwrap();
    for number in [1, 2] {
        let late = acquire(&store, number, Duration::ZERO);
        assert_eq!(refusal(late).await, Code::LeaseIdRetired);
    }
}

/// Waits until the store has no such lease.
async fn forgotten(store: &Store, name: &str) {
    let key = LeaseKey::of_text(name);
    let gone = async {
        while store.knows(&key) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, gone)
        .await
        .expect("a lease that is forgotten");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_forgotten_after_its_time_unless_the_lease_is_held_awaited_or_watched() {
    let folder = tempfile::tempdir().unwrap();
    let after = Duration::from_millis(300);
    let mut config = StoreConfig::folder(folder.path());
    config.limits.max_leases_per_namespace = 5;
    let grant = async |store: &Store, name: &str, number| {
        let key = LeaseKey::of_text(name);
        let queued = queued(number, Duration::ZERO);
        store.acquire(&key, &queued).await.map(|view| view.epoch)
    };
    let release = async |store: &Store, name: &str, number| {
        let release = Operation::Release(id(number));
        let key = LeaseKey::of_text(name);
        store.operate(&key, &release, None).await.unwrap();
    };
    let store = Store::open(config.clone()).unwrap();
    let far = grant(&store, "ns/before", 1).await.unwrap();
    release(&store, "ns/before", 1).await;
    store.close();
    drop(store);

    // A lease that was free at the start is forgotten, too; without the limit it stays.
    config.limits.forget_leases_after = after;
    let store = Store::open(config.clone()).unwrap();
    for (name, number) in [("held", 2), ("polled", 3), ("streamed", 4), ("gone", 5)] {
        grant(&store, &format!("ns/{name}"), number).await.unwrap();
    }
    let full = grant(&store, "ns/more", 6).await.unwrap_err();
    assert_eq!(full.code, Code::OverLimit);
    let polled = LeaseKey::of_text("ns/polled");
    let subscribed = store
        .inner
        .transact(&polled, IfMissing::Refuse, |lease| lease.subscribe());
    let subscribed = subscribed.unwrap().value.unwrap();
    let streamed = Topic::Lease(LeaseKey::of_text("ns/streamed"));
    let watch = Subscription::new(&store.inner.events, streamed, false);
    for (name, number) in [("polled", 3), ("streamed", 4), ("gone", 5)] {
        release(&store, &format!("ns/{name}"), number).await;
    }
    let ended = tokio::time::Instant::now();
    let (before, gone) = (LeaseKey::of_text("ns/before"), LeaseKey::of_text("ns/gone"));
    forgotten(&store, before.as_str()).await;
    forgotten(&store, gone.as_str()).await;
    // The end of a term is known to a tenth of a second.
    assert!(ended.elapsed() >= after - Duration::from_millis(150));
    // There is room again, and epochs go on.
    let again = grant(&store, "ns/before", 7).await.unwrap();
    assert!(again > far, "{again:?} after {far:?}");
    for name in ["ns/held", "ns/polled", "ns/streamed"] {
        assert!(store.knows(&LeaseKey::of_text(name)), "{name}");
    }
    drop((subscribed, watch));
    forgotten(&store, "ns/polled").await;
    forgotten(&store, "ns/streamed").await;
    assert!(store.knows(&LeaseKey::of_text("ns/held")));
    assert!(store.knows(&before), "it is held again");
}

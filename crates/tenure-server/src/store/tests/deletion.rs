//! Deletions, and leases that are created again.

use crate::clock;

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

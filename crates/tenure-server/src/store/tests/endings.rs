//! The ends of a store: it is closed, its engine fails, or one of its threads panics.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn after_an_io_error_nothing_is_written_and_all_requests_are_refused() {
    let (store, script) = held().await;
    let next = acquire(&store, 2, SOON);
    queue_of(&store, 1).await;
    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::batch).await;
    script.decide(Err(AppendError::Unknown("fsync: EIO".into())));
    assert_eq!(refusal(released).await, Code::HomeUnavailable);
    assert_eq!(refusal(next).await, Code::HomeUnavailable);
    timeout(SOON, store.failed().cancelled()).await.unwrap();
    assert_eq!(
        refusal(acquire(&store, 3, Duration::ZERO)).await,
        Code::HomeUnavailable
    );
    assert_eq!(refusal(view(&store)).await, Code::HomeUnavailable);
    assert!(store.failed().is_cancelled());
    assert!(on_engine(&script, Script::is_idle).await);
    // Closing the store does not wait for the thread that has ended.
    tokio::task::block_in_place(|| store.close());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_store_commits_queued_changes_and_refuses_new_ones() {
    let (store, script) = scripted();
    let granted = acquire(&store, 1, Duration::ZERO);
    on_engine(&script, Script::batch).await;
    let closing = tokio::task::spawn_blocking({
        let store = store.clone();
        move || store.close()
    });
    tokio::time::sleep(A_MOMENT).await;
    assert!(!closing.is_finished());
    script.decide(Ok(()));
    closing.await.unwrap();
    answer(granted).await.unwrap();
    assert_eq!(
        refusal(operate(&store, Operation::Renew(id(1), None))).await,
        Code::Stopping
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_engine_failed_ends_with_an_error() {
    let (store, script) = scripted();
    let server = crate::Server::bind(store.clone(), "127.0.0.1:0".parse().unwrap()).unwrap();
    let serving = tokio::spawn(server.serve(std::future::pending()));
    let granted = acquire(&store, 1, Duration::ZERO);
    on_engine(&script, Script::batch).await;
    script.decide(Err(AppendError::Unknown("fsync: EIO".into())));
    assert_eq!(refusal(granted).await, Code::HomeUnavailable);
    let ended = timeout(SOON, serving).await.unwrap().unwrap();
    assert!(matches!(ended, Err(crate::ServeError::EngineFailed)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_timer_panicked_ends_with_an_error_and_refuses_waiters() {
    let store = Store::open(StoreConfig::memory()).unwrap();
    let server = crate::Server::bind(store.clone(), "127.0.0.1:0".parse().unwrap()).unwrap();
    let serving = tokio::spawn(server.serve(std::future::pending()));
    let mut short = queued(1, Duration::ZERO);
    short.request.duration = LeaseDuration::Fixed(Duration::from_secs(1));
    store.acquire(&planted(), &short).await.unwrap();
    let waits = store.acquire(&planted(), &queued(2, SOON)).await;
    assert!(waits.is_err(), "{waits:?}");
    let ended = timeout(SOON, serving).await.unwrap().unwrap();
    assert!(matches!(ended, Err(crate::ServeError::EngineFailed)));
    let refused = store.acquire(&key(), &queued(3, Duration::ZERO)).await;
    assert_eq!(refused.unwrap_err().code, Code::HomeUnavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_whose_engine_panics_acknowledges_nothing_more() {
    let (store, script) = scripted();
    let granted = acquire(&store, 1, Duration::ZERO);
    on_engine(&script, Script::batch).await;
    script.panic();
    assert_eq!(refusal(granted).await, Code::HomeUnavailable);
    timeout(SOON, store.failed().cancelled()).await.unwrap();
    let refused = acquire(&store, 2, Duration::ZERO);
    assert_eq!(refusal(refused).await, Code::HomeUnavailable);
    timeout(SOON, tokio::task::spawn_blocking(move || store.close()))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_engine_fails_while_it_is_closed_ends_with_an_error() {
    for fails in [false, true] {
        let (store, script) = scripted();
        script.shelf.fails_at_the_end.store(fails, Ordering::SeqCst);
        let server = crate::Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
        let ended = timeout(SOON, server.serve(std::future::ready(()))).await;
        assert_eq!(ended.unwrap().is_err(), fails);
    }
}

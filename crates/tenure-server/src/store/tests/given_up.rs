//! Tests of waiting requests whose clients disconnect, or lose their right, at the moment of the
//! grant.

use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::sync::oneshot;

use super::*;
use crate::config::StoreConfig;

type Request<'a> = Pin<Box<dyn Future<Output = Result<LeaseView, Problem>> + 'a>>;

fn request(store: &Store, number: u64) -> Request<'_> {
    Box::pin(async move { store.acquire(&key(), &queued(number, SOON)).await })
}

/// Polls the request's task once, as a runtime does when the task is woken.
fn poll(request: &mut Request<'_>) -> Poll<Result<LeaseView, Problem>> {
    request
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}

async fn acquire_now(store: &Store, number: u64) -> Result<LeaseView, Problem> {
    store.acquire(&key(), &queued(number, Duration::ZERO)).await
}

async fn release(store: &Store, number: u64) {
    let release = Operation::Release(id(number));
    store.operate(&key(), &release, None).await.unwrap();
}

async fn holder(store: &Store) -> String {
    let view = store.view(&key()).await.unwrap();
    view.holder
        .map(|holder| holder.to_string())
        .unwrap_or_default()
}

/// Returns a store in memory, in which candidate 1 holds the lease.
async fn held() -> Store {
    let store = Store::open(StoreConfig::memory()).unwrap();
    acquire_now(&store, 1).await.unwrap();
    store
}

#[tokio::test]
async fn a_holder_that_was_answered_keeps_its_lease_when_its_older_request_is_dropped() {
    let store = held().await;
    let (mut first, mut next) = (request(&store, 2), request(&store, 3));
    assert!(poll(&mut first).is_pending() && poll(&mut next).is_pending());
    release(&store, 1).await;
    // The waiting request of candidate 2 has its grant but has not read it. The candidate has
    // abandoned that request and sends another one.
    let granted = acquire_now(&store, 2).await.unwrap();
    drop(first);
    assert!(poll(&mut next).is_pending());
    assert_eq!(holder(&store).await, "candidate-2");
    let renew = Operation::Renew(id(2), None);
    let renewed = store.operate(&key(), &renew, None).await.unwrap();
    assert_eq!(renewed.epoch, granted.epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_goes_away_before_its_grant_is_durable_gives_the_lease_to_the_next() {
    let (store, script) = super::held().await;
    let first = acquire(&store, 2, SOON);
    queue_of(&store, 1).await;
    let next = acquire(&store, 3, SOON);
    queue_of(&store, 2).await;
    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::batch).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    script.decide(Ok(()));
    answer(released).await.unwrap();
    on_engine(&script, Script::commit).await;
    let granted = answer(next).await.unwrap();
    assert_eq!(granted.holder.as_deref(), Some("candidate-3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_time_is_up_while_its_grant_is_written_gets_the_grant() {
    let (store, script) = super::held().await;
    let next = acquire(&store, 2, Duration::from_millis(300));
    queue_of(&store, 1).await;
    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::batch).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(!next.is_finished());
    script.decide(Ok(()));
    answer(released).await.unwrap();
    let granted = answer(next).await.unwrap();
    assert_eq!(granted.holder.as_deref(), Some("candidate-2"));
}

/// Returns a request that is refused when a value is sent.
fn revocable(
    store: &Store,
    number: u64,
    wait: Duration,
) -> (
    impl Future<Output = Result<LeaseView, Problem>> + use<>,
    oneshot::Sender<()>,
) {
    let (revoke, revoked) = oneshot::channel();
    let refused = async {
        match revoked.await {
            Ok(()) => Problem::new(Code::Forbidden, "the right is gone"),
            Err(_) => pending().await,
        }
    };
    let store = store.clone();
    let request = async move {
        let queued = queued(number, wait);
        store
            .acquire_as((None, &Tenant::Unknown), &key(), &queued, refused)
            .await
    };
    (request, revoke)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_refused_before_its_grant_is_durable_gives_the_lease_to_the_next() {
    let (store, script) = super::held().await;
    let (first, revoke) = revocable(&store, 2, SOON);
    let first = tokio::spawn(first);
    queue_of(&store, 1).await;
    let next = acquire(&store, 3, SOON);
    queue_of(&store, 2).await;
    let released = operate(&store, Operation::Release(id(1)));
    on_engine(&script, Script::batch).await;
    revoke.send(()).unwrap();
    assert_eq!(answer(first).await.unwrap_err().code, Code::Forbidden);
    script.decide(Ok(()));
    answer(released).await.unwrap();
    on_engine(&script, Script::commit).await;
    let granted = answer(next).await.unwrap();
    assert_eq!(granted.holder.as_deref(), Some("candidate-3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_granted_the_lease_at_once_is_not_refused_while_that_is_written() {
    let (store, script) = scripted();
    let (first, revoke) = revocable(&store, 1, SOON);
    let first = tokio::spawn(first);
    on_engine(&script, Script::batch).await;
    revoke.send(()).unwrap();
    tokio::time::sleep(A_MOMENT).await;
    assert!(!first.is_finished());
    script.decide(Ok(()));
    let granted = answer(first).await.unwrap();
    assert_eq!(granted.holder.as_deref(), Some("candidate-1"));
}

//! The calls on leases: what comes in is checked by the core's wire types, what is done is the
//! store's business, and what comes out is a view.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Result as Answer;
use tenure_core::lease::{Metadata, Operation, Rules};
use tenure_core::wire::{
    AcquireRequest, ChangeRequest, Code, HandOverRequest, History, LeaseList, LeaseView,
    MetadataRequest, Problem, ReleaseRequest, RenewRequest, VerifyReply, VerifyRequest,
};

use super::body::{BreakBody, Json};
use super::path::{Lease, Namespace};
use super::problem::Failure;
use super::query::{ListQuery, NoQuery, PollQuery};
use crate::Store;
use crate::random::OsRandom;
use crate::table::Key;

pub(super) type Replied<T> = Result<Json<T>, Failure>;

pub(super) async fn acquire(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<AcquireRequest>,
) -> Replied<LeaseView> {
    let queued = request.check(&Rules::NATIVE, &mut OsRandom)?;
    check_metadata(&store, &queued.request.metadata)?;
    let view = in_time(&store, queued.wait, store.acquire(&key, &queued)).await?;
    Ok(Json(view))
}

pub(super) async fn renew(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<RenewRequest>,
) -> Replied<LeaseView> {
    renew_one(&store, &key, &request).await
}

/// Renews the lease, however the request came here.
pub(super) async fn renew_one(
    store: &Store,
    key: &Key,
    request: &RenewRequest,
) -> Replied<LeaseView> {
    let operation = request.check(&Rules::NATIVE)?;
    // Not `in_time`: who holds a lease keeps it, however slow the disk is.
    Ok(Json(store.operate(key, &operation, None).await?))
}

pub(super) async fn change(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<ChangeRequest>,
) -> Replied<LeaseView> {
    operate(&store, &key, request.check()?, None).await
}

pub(super) async fn release(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<ReleaseRequest>,
) -> Replied<LeaseView> {
    let (operation, reason) = request.check()?;
    operate(&store, &key, operation, reason).await
}

pub(super) async fn break_lease(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
    BreakBody(request): BreakBody,
) -> Replied<LeaseView> {
    let (operation, reason) = request.check(&Rules::NATIVE)?;
    operate(&store, &key, operation, reason).await
}

pub(super) async fn hand_over(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<HandOverRequest>,
) -> Replied<LeaseView> {
    operate(&store, &key, request.check(&Rules::NATIVE)?, None).await
}

pub(super) async fn set_metadata(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<MetadataRequest>,
) -> Replied<LeaseView> {
    let operation = request.check()?;
    if let Operation::SetMetadata(_, metadata) = &operation {
        check_metadata(&store, metadata)?;
    }
    operate(&store, &key, operation, None).await
}

pub(super) async fn verify(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<VerifyRequest>,
) -> Replied<VerifyReply> {
    let Operation::Verify(epoch) = request.check()? else {
        unreachable!("a verify request is a verify operation")
    };
    let reply = in_time(&store, Duration::ZERO, store.verify(&key, epoch)).await?;
    Ok(Json(reply))
}

pub(super) async fn view(
    State(store): State<Store>,
    Lease(key): Lease,
    query: PollQuery,
) -> Replied<LeaseView> {
    let view = match query.after {
        Some(after) => in_time(&store, query.wait, store.poll(&key, after, query.wait)).await?,
        None => in_time(&store, Duration::ZERO, store.view(&key)).await?,
    };
    Ok(Json(view))
}

pub(super) async fn history(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
) -> Replied<History> {
    let history = in_time(&store, Duration::ZERO, store.history(&key)).await?;
    Ok(Json(history))
}

pub(super) async fn delete(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
) -> Answer<StatusCode, Failure> {
    in_time(&store, Duration::ZERO, store.delete(&key)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn list(
    State(store): State<Store>,
    Namespace(namespace): Namespace,
    query: ListQuery,
) -> Replied<LeaseList> {
    let after = query.after.map(|name| Key::new(&namespace, &name));
    let list = store.list(
        namespace.as_str(),
        &query.prefix,
        after.as_ref(),
        query.limit,
    );
    Ok(Json(in_time(&store, Duration::ZERO, list).await?))
}

async fn operate(
    store: &Store,
    key: &Key,
    operation: Operation,
    reason: Option<String>,
) -> Replied<LeaseView> {
    let operate = store.operate(key, &operation, reason);
    Ok(Json(in_time(store, Duration::ZERO, operate).await?))
}

/// Does `work`, that may wait for so long, within the time that a request has.
pub(super) async fn in_time<T>(
    store: &Store,
    wait: Duration,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let most = store.limits().request_time;
    match tokio::time::timeout(wait + most, work).await {
        Ok(result) => result,
        Err(_) => Err(Problem::new(
            Code::RequestTimeout,
            format!("the request took longer than {most:?}; what it asked for may yet be done"),
        )),
    }
}

fn check_metadata(store: &Store, metadata: &Metadata) -> Result<(), Problem> {
    let entries = metadata.iter();
    let bytes: usize = entries.map(|(key, value)| key.len() + value.len()).sum();
    let most = store.limits().max_metadata_bytes;
    if bytes <= most {
        return Ok(());
    }
    Err(Problem::new(
        Code::TooLarge,
        format!("metadata has {bytes} bytes of keys and values, at most {most} are taken"),
    ))
}

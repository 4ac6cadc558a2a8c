//! The calls on leases: what comes in is checked by the core's wire types, what is done is the
//! store's business, and what comes out is a view.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Result as Answer;
use tenure_core::lease::{Operation, Rules};
use tenure_core::wire::{
    AcquireRequest, ChangeRequest, HandOverRequest, LeaseList, LeaseView, MetadataRequest,
    ReleaseRequest, RenewRequest, VerifyReply, VerifyRequest,
};

use super::body::{BreakBody, Json};
use super::path::{Lease, Namespace};
use super::problem::Failure;
use super::query::{ListQuery, NoQuery, PollQuery};
use crate::Store;
use crate::random::OsRandom;
use crate::table::Key;

type Replied<T> = Result<axum::Json<T>, Failure>;

pub(super) async fn acquire(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<AcquireRequest>,
) -> Replied<LeaseView> {
    let queued = request.check(&Rules::NATIVE, &mut OsRandom)?;
    Ok(axum::Json(store.acquire(&key, &queued).await?))
}

pub(super) async fn renew(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<RenewRequest>,
) -> Replied<LeaseView> {
    operate(&store, &key, request.check(&Rules::NATIVE)?, None).await
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
    operate(&store, &key, request.check()?, None).await
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
    Ok(axum::Json(store.verify(&key, epoch).await?))
}

pub(super) async fn view(
    State(store): State<Store>,
    Lease(key): Lease,
    query: PollQuery,
) -> Replied<LeaseView> {
    let view = match query.after {
        Some(after) => store.poll(&key, after, query.wait).await?,
        None => store.view(&key).await?,
    };
    Ok(axum::Json(view))
}

pub(super) async fn delete(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
) -> Answer<StatusCode, Failure> {
    store.delete(&key).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn list(
    State(store): State<Store>,
    Namespace(namespace): Namespace,
    query: ListQuery,
) -> Replied<LeaseList> {
    let after = query.after.map(|name| Key::new(&namespace, &name));
    let list = store
        .list(
            namespace.as_str(),
            &query.prefix,
            after.as_ref(),
            query.limit,
        )
        .await?;
    Ok(axum::Json(list))
}

async fn operate(
    store: &Store,
    key: &Key,
    operation: Operation,
    reason: Option<String>,
) -> Replied<LeaseView> {
    Ok(axum::Json(store.operate(key, &operation, reason).await?))
}

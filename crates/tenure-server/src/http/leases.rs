//! The operations on leases. The wire types check the request, the store executes it, and the
//! response is a view.

use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequest, State};
use axum::http::{StatusCode, Uri};
use axum::routing::{MethodFilter, MethodRouter, on};
use tenure_core::lease::{Operation, Rules};
use tenure_core::wire::{
    AcquireRequest, ChangeRequest, Code, HandOverRequest, History, LeaseList, LeaseView,
    MetadataRequest, Problem, ReleaseRequest, RenewRequest, VerifyReply, VerifyRequest,
    check_metadata,
};

use super::body::{BreakBody, JsonBody};
use super::path::{Lease, Namespace};
use super::problem::ProblemResponse;
use super::query::{ListQuery, NoQuery, PollQuery};
use crate::Store;
use crate::random::OsRandom;
use crate::table::LeaseKey;

pub(super) type JsonResult<T> = Result<Json<T>, ProblemResponse>;

/// The operation of a request and its reason, or the problem of a request that is not valid.
type Checked = Result<(Operation, Option<String>), Problem>;

pub(super) async fn acquire(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
    JsonBody(request): JsonBody<AcquireRequest>,
) -> JsonResult<LeaseView> {
    let queued = request.check(&Rules::NATIVE, &mut OsRandom)?;
    let most = store.limits().max_metadata_bytes;
    check_metadata(&queued.request.metadata, most)?;
    answer(&store, queued.wait, store.acquire(&key, &queued)).await
}

pub(super) fn renew(JsonBody(request): JsonBody<RenewRequest>) -> Checked {
    Ok((request.check(&Rules::NATIVE)?, None))
}

pub(super) fn change(JsonBody(request): JsonBody<ChangeRequest>) -> Checked {
    Ok((request.check()?, None))
}

pub(super) fn release(JsonBody(request): JsonBody<ReleaseRequest>) -> Checked {
    request.check()
}

pub(super) fn break_lease(BreakBody(request): BreakBody) -> Checked {
    request.check(&Rules::NATIVE)
}

pub(super) fn hand_over(JsonBody(request): JsonBody<HandOverRequest>) -> Checked {
    Ok((request.check(&Rules::NATIVE)?, None))
}

pub(super) fn set_metadata(JsonBody(request): JsonBody<MetadataRequest>) -> Checked {
    Ok((request.check()?, None))
}

/// Creates the handler of an operation on an existing lease. `check` converts the body into the
/// operation.
pub(super) fn operation<B>(method: MethodFilter, check: fn(B) -> Checked) -> MethodRouter<Store>
where
    B: FromRequest<Store, Rejection = ProblemResponse> + Send + 'static,
{
    let handler =
        async move |State(store): State<Store>, Lease(key): Lease, _: NoQuery, body: B| {
            let (operation, reason) = check(body)?;
            if let Operation::SetMetadata(_, metadata) = &operation {
                check_metadata(metadata, store.limits().max_metadata_bytes)?;
            }
            operate(&store, &key, &operation, reason).await
        };
    on(method, handler)
}

/// Executes an operation, for the routes and for the fast path.
pub(super) async fn operate(
    store: &Store,
    key: &LeaseKey,
    operation: &Operation,
    reason: Option<String>,
) -> JsonResult<LeaseView> {
    let view = store.operate(key, operation, reason);
    match operation {
        // There is no time limit: a holder keeps its lease, however slow the disk is.
        Operation::Renew(..) => Ok(Json(view.await?)),
        _ => Box::pin(answer(store, Duration::ZERO, view)).await,
    }
}

pub(super) async fn verify(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
    JsonBody(request): JsonBody<VerifyRequest>,
) -> JsonResult<VerifyReply> {
    let operation = request.check()?;
    answer(&store, Duration::ZERO, store.verify(&key, &operation)).await
}

pub(super) async fn view(
    store: &Store,
    key: &LeaseKey,
    PollQuery { after, wait }: PollQuery,
) -> JsonResult<LeaseView> {
    match after {
        Some(after) => answer(store, wait, store.poll(key, after, wait)).await,
        None => answer(store, Duration::ZERO, store.view(key)).await,
    }
}

pub(super) async fn history(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
) -> JsonResult<History> {
    answer(&store, Duration::ZERO, store.history(&key)).await
}

pub(super) async fn delete(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
) -> Result<StatusCode, ProblemResponse> {
    let Json(()) = answer(&store, Duration::ZERO, store.delete(&key)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn list(
    State(store): State<Store>,
    Namespace(namespace): Namespace,
    uri: Uri,
) -> JsonResult<LeaseList> {
    let query = ListQuery::of(&uri)?;
    let after = query.after.map(|name| LeaseKey::new(&namespace, &name));
    let (namespace, prefix) = (namespace.as_str(), &query.prefix);
    let list = store.list(namespace, prefix, after.as_ref(), query.limit);
    answer(&store, Duration::ZERO, list).await
}

/// Returns the answer of `work`, which may wait for `wait` in addition to the time limit of a
/// request.
async fn answer<T>(
    store: &Store,
    wait: Duration,
    work: impl Future<Output = Result<T, Problem>>,
) -> JsonResult<T> {
    let most = store.limits().request_time;
    let in_time = tokio::time::timeout(wait + most, work).await;
    let done = in_time.map_err(|_| {
        Problem::new(
            Code::RequestTimeout,
            format!("the request took longer than {most:?}; the store may still execute it"),
        )
    })?;
    Ok(Json(done?))
}

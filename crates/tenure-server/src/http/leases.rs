//! The operations on leases. The wire types check the request, the store executes it, and the
//! response is a view.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Result as Answer;
use tenure_core::lease::{Metadata, Operation, Rules};
use tenure_core::wire::{
    AcquireRequest, ChangeRequest, Code, HandOverRequest, History, LeaseList, LeaseView,
    MetadataRequest, Problem, ReleaseRequest, RenewRequest, VerifyReply, VerifyRequest,
};

use super::auditor::Auditor;
use super::body::{BreakBody, Json};
use super::path::{Lease, Namespace};
use super::problem::ProblemResponse;
use super::query::{ListQuery, NoQuery, PollQuery};
use crate::Store;
use crate::access::{Caller, Right, Role, Target};
use crate::audit::AuditKind;
use crate::random::OsRandom;
use crate::table::LeaseKey;

pub(super) type JsonResult<T> = Result<Json<T>, ProblemResponse>;

pub(super) async fn acquire(
    State(store): State<Store>,
    caller: Caller,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<AcquireRequest>,
) -> JsonResult<LeaseView> {
    let queued = request.check(&Rules::NATIVE, &mut OsRandom)?;
    check_metadata(&store, &queued.request.metadata)?;
    let acquire = store.acquire_as(caller.owner(), &key, &queued);
    let view = within_time(&store, queued.wait, acquire).await?;
    Ok(Json(view))
}

pub(super) async fn renew(
    State(store): State<Store>,
    caller: Caller,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<RenewRequest>,
) -> JsonResult<LeaseView> {
    renew_one(&store, &caller, &key, &request).await
}

/// Renews the lease, for the fast path and for the route.
pub(super) async fn renew_one(
    store: &Store,
    caller: &Caller,
    key: &LeaseKey,
    request: &RenewRequest,
) -> JsonResult<LeaseView> {
    let operation = request.check(&Rules::NATIVE)?;
    // Without a time limit: a holder keeps its lease, however slow the disk is.
    let renewed = store.operate_as(caller.owner(), key, &operation, None);
    Ok(Json(renewed.await?))
}

pub(super) async fn change(
    State(store): State<Store>,
    caller: Caller,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<ChangeRequest>,
) -> JsonResult<LeaseView> {
    operate(&store, &caller, &key, request.check()?, None).await
}

pub(super) async fn release(
    State(store): State<Store>,
    caller: Caller,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<ReleaseRequest>,
) -> JsonResult<LeaseView> {
    let (operation, reason) = request.check()?;
    operate(&store, &caller, &key, operation, reason).await
}

pub(super) async fn break_lease(
    State(store): State<Store>,
    caller: Caller,
    auditor: Auditor,
    Lease(key): Lease,
    _: NoQuery,
    BreakBody(request): BreakBody,
) -> JsonResult<LeaseView> {
    let (operation, reason) = request.check(&Rules::NATIVE)?;
    let work = operate(&store, &caller, &key, operation, reason.clone());
    auditor
        .record(AuditKind::Break, (&store, &key), reason, work)
        .await
}

pub(super) async fn hand_over(
    State(store): State<Store>,
    caller: Caller,
    auditor: Auditor,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<HandOverRequest>,
) -> JsonResult<LeaseView> {
    let target = Target::Lease(key.namespace(), key.lease());
    let operation = || request.check(&Rules::NATIVE);
    // A holder hands over its own lease, and an operator any other.
    if request.lease_id.is_some() {
        caller.check(Right::Role(Role::Candidate), target)?;
        return operate(&store, &caller, &key, operation()?, None).await;
    }
    caller.check(Right::Role(Role::Operator), target)?;
    let work = operate(&store, &caller, &key, operation()?, None);
    auditor
        .record(AuditKind::Handover, (&store, &key), None, work)
        .await
}

pub(super) async fn set_metadata(
    State(store): State<Store>,
    caller: Caller,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<MetadataRequest>,
) -> JsonResult<LeaseView> {
    let operation = request.check()?;
    if let Operation::SetMetadata(_, metadata) = &operation {
        check_metadata(&store, metadata)?;
    }
    operate(&store, &caller, &key, operation, None).await
}

pub(super) async fn verify(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
    Json(request): Json<VerifyRequest>,
) -> JsonResult<VerifyReply> {
    let Operation::Verify(epoch) = request.check()? else {
        unreachable!("a verify request makes a verify operation")
    };
    let reply = within_time(&store, Duration::ZERO, store.verify(&key, epoch)).await?;
    Ok(Json(reply))
}

pub(super) async fn view(
    State(store): State<Store>,
    Lease(key): Lease,
    query: PollQuery,
) -> JsonResult<LeaseView> {
    let view = match query.after {
        Some(after) => within_time(&store, query.wait, store.poll(&key, after, query.wait)).await?,
        None => within_time(&store, Duration::ZERO, store.view(&key)).await?,
    };
    Ok(Json(view))
}

pub(super) async fn history(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
) -> JsonResult<History> {
    let history = within_time(&store, Duration::ZERO, store.history(&key)).await?;
    Ok(Json(history))
}

pub(super) async fn delete(
    State(store): State<Store>,
    auditor: Auditor,
    Lease(key): Lease,
    _: NoQuery,
) -> Answer<StatusCode, ProblemResponse> {
    let work = async { Ok(within_time(&store, Duration::ZERO, store.delete(&key)).await?) };
    let recorded = auditor.record(AuditKind::Delete, (&store, &key), None, work);
    recorded.await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The leases that the caller may read.
pub(super) async fn list(
    State(store): State<Store>,
    caller: Caller,
    Namespace(namespace): Namespace,
    query: ListQuery,
) -> JsonResult<LeaseList> {
    let readable = caller.readable(namespace.as_str());
    let prefixes = common_prefixes(&readable, &query.prefix);
    let list = async {
        let after = query.after.map(|name| LeaseKey::new(&namespace, &name));
        let mut listed = LeaseList {
            leases: Vec::new(),
            next: None,
        };
        // The prefixes are sorted and do not overlap, so the pages of all are in order.
        for (index, prefix) in prefixes.iter().enumerate() {
            let left = query.limit - listed.leases.len();
            let page = store
                .list(namespace.as_str(), prefix, after.as_ref(), left)
                .await?;
            listed.leases.extend(page.leases);
            listed.next = page.next;
            let is_full = listed.leases.len() == query.limit && index + 1 < prefixes.len();
            if is_full && listed.next.is_none() {
                listed.next = listed.leases.last().map(|last| last.lease.clone());
            }
            if listed.next.is_some() {
                break;
            }
        }
        Ok(listed)
    };
    Ok(Json(within_time(&store, Duration::ZERO, list).await?))
}

/// The prefixes of the names that begin with one of `readable`, and with `wanted`.
fn common_prefixes<'a>(readable: &[&'a str], wanted: &'a str) -> Vec<&'a str> {
    let readable = readable.iter().copied();
    let common = readable.filter_map(|readable| {
        if readable.starts_with(wanted) {
            Some(readable)
        } else {
            wanted.starts_with(readable).then_some(wanted)
        }
    });
    common.collect()
}

async fn operate(
    store: &Store,
    caller: &Caller,
    key: &LeaseKey,
    operation: Operation,
    reason: Option<String>,
) -> JsonResult<LeaseView> {
    let operate = store.operate_as(caller.owner(), key, &operation, reason);
    Ok(Json(within_time(store, Duration::ZERO, operate).await?))
}

/// Runs `work`, which may wait for this long, within the time limit of a request.
pub(super) async fn within_time<T>(
    store: &Store,
    wait: Duration,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let most = store.limits().request_time;
    match tokio::time::timeout(wait + most, work).await {
        Ok(result) => result,
        Err(_) => Err(Problem::new(
            Code::RequestTimeout,
            format!("the request took longer than {most:?}; the store may still execute it"),
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
        format!("metadata has {bytes} bytes of keys and values, at most {most} are allowed"),
    ))
}

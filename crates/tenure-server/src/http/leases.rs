//! The operations on leases. The wire types check the request, the store executes it, and the
//! response is a view.

use std::panic::resume_unwind;
use std::pin::pin;
use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt;
use tenure_core::lease::{Operation, Rules};
use tenure_core::wire::{
    AcquireRequest, BreakRequest, ChangeRequest, Code, HandOverRequest, LeaseView, MetadataRequest,
    Problem, ReleaseRequest, RenewRequest, VerifyReply, VerifyRequest,
};

use super::auditor::Auditor;
use super::body::{Json, JsonResult};
use super::call::Call;
use super::page_of_json::{PageOfJson, TURN, WrittenJson};
use super::query::{ListQuery, PollQuery, before};
use crate::Store;
use crate::access::{Caller, Right, Role, Target};
use crate::audit::AuditKind;
use crate::clock;
use crate::model::TraceId;
use crate::random::OsRandom;
use crate::table::LeaseKey;

/// The right that an acquire and a renewal need, which the table of routes has too.
pub(super) const CANDIDATE: Right = Right::Role(Role::Candidate);

/// The operation of a request and its reason, or the problem of a request that is not valid.
type Checked = Result<(Operation, Option<String>), Problem>;

pub(super) async fn acquire(call: Call<'_>) -> JsonResult<LeaseView> {
    let key = call.lease()?;
    let request: AcquireRequest = call.json()?;
    let (store, access, caller) = (call.store, call.access, &call.caller);
    let target = Target::Lease(key.namespace(), key.lease());
    let refused = async {
        access.refused(caller, CANDIDATE, target).await;
        caller.forbidden(CANDIDATE, target)
    };
    let mut queued = request.check(&Rules::NATIVE, &mut OsRandom)?;
    // Only these two fields name epochs.
    if queued.request.min_epoch.is_some() || queued.resume.is_some() {
        let operator = Right::Role(Role::Operator);
        queued.request.by_operator = access.check_again(caller, operator, target).is_ok();
    }
    let operation = queued.operation(clock::wall());
    store.limits().check_operation(&operation)?;
    let tenant = caller.tenant();
    let acquire = store.acquire_as((caller.owner(), &tenant), &key, &queued, refused);
    answer(store, queued.wait, acquire).await
}

pub(super) fn renew(call: &Call<'_>) -> Checked {
    let request: RenewRequest = call.json()?;
    Ok((request.check(&Rules::NATIVE)?, None))
}

pub(super) fn change(call: &Call<'_>) -> Checked {
    let request: ChangeRequest = call.json()?;
    Ok((request.check()?, None))
}

pub(super) fn release(call: &Call<'_>) -> Checked {
    let request: ReleaseRequest = call.json()?;
    request.check()
}

pub(super) fn break_lease(call: &Call<'_>) -> Checked {
    let request: BreakRequest = call.optional_json()?;
    request.check(&Rules::NATIVE)
}

pub(super) fn hand_over(call: &Call<'_>) -> Checked {
    let request: HandOverRequest = call.json()?;
    request.check(&Rules::NATIVE)
}

pub(super) fn set_metadata(call: &Call<'_>) -> Checked {
    let request: MetadataRequest = call.json()?;
    Ok((request.check()?, None))
}

/// Executes an operation on an existing lease. `check` converts the body into the operation.
pub(super) async fn operation(
    call: Call<'_>,
    check: fn(&Call<'_>) -> Checked,
) -> JsonResult<LeaseView> {
    let key = call.lease()?;
    let (operation, reason) = check(&call)?;
    call.store.limits().check_operation(&operation)?;
    let kind = operators(&operation);
    // A holder may hand over its own lease, and an operator any lease.
    let role = match kind {
        Some(_) => Role::Operator,
        None => Role::Candidate,
    };
    let target = Target::Lease(key.namespace(), key.lease());
    call.caller.check(Right::Role(role), target)?;
    let Some(kind) = kind else {
        return operate(call.store, &call.caller, &key, &operation, reason).await;
    };
    let auditor = Auditor::of(&call);
    let (store, caller) = (call.store.clone(), call.caller);
    // Boxed, because a renewal would hold the memory for this future.
    Box::pin(to_the_end(async move {
        let work = operate(&store, &caller, &key, &operation, reason.clone());
        auditor.record(kind, (&store, &key), reason, work).await
    }))
    .await
}

/// Executes an operator's change and writes its line in the audit log, even if the client
/// disconnects before the end: otherwise an operator could avoid the line.
async fn to_the_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::spawn(TraceId::scope(TraceId::current(), change)).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(Problem::new(Code::Internal, "the store stops")),
        },
    }
}

/// Returns the audit kind of an operation that needs no lease id; `None` for other operations.
const fn operators(operation: &Operation) -> Option<AuditKind> {
    match operation {
        Operation::Break(_) => Some(AuditKind::Break),
        Operation::SwitchOver { .. } => Some(AuditKind::Handover),
        _ => None,
    }
}

async fn operate(
    store: &Store,
    caller: &Caller,
    key: &LeaseKey,
    operation: &Operation,
    reason: Option<String>,
) -> JsonResult<LeaseView> {
    let view = store.operate_as(caller.owner(), key, operation, reason);
    match operation {
        // There is no time limit: a holder keeps its lease, however slow the disk is.
        Operation::Renew(..) => Ok(Json(view.await?)),
        _ => Box::pin(answer(store, Duration::ZERO, view)).await,
    }
}

pub(super) async fn verify(call: Call<'_>) -> JsonResult<VerifyReply> {
    let (store, key) = (call.store, call.lease()?);
    let operation = call.json::<VerifyRequest>()?.check()?;
    answer(store, Duration::ZERO, store.verify(&key, &operation)).await
}

pub(super) async fn view(
    store: &Store,
    caller: &Caller,
    key: &LeaseKey,
    PollQuery { after, wait }: PollQuery,
) -> JsonResult<LeaseView> {
    match after {
        Some(after) => answer(store, wait, store.poll(&caller.tenant(), key, after, wait)).await,
        None => answer(store, Duration::ZERO, store.view(key)).await,
    }
}

/// Returns the terms of a lease, newest first.
pub(super) async fn history(call: Call<'_>) -> Result<WrittenJson, Problem> {
    let (store, key) = (call.store, call.lease()?);
    let before = before(&call.head.uri)?;
    let history = async {
        let mut page = PageOfJson::begin("terms");
        let mut last = None;
        for term in store.history(&key, before).await? {
            if !page.push(&term).await? {
                return page.end_with_next(last.as_ref());
            }
            last = Some(term.epoch);
        }
        page.end_with_next(None::<&u64>)
    };
    in_time(store, Duration::ZERO, history).await
}

pub(super) async fn delete(call: Call<'_>) -> Result<StatusCode, Problem> {
    let key = call.lease()?;
    let (auditor, store) = (Auditor::of(&call), call.store.clone());
    let change = async move {
        let work = answer(&store, Duration::ZERO, store.delete(&key));
        let recorded = auditor.record(AuditKind::Delete, (&store, &key), None, work);
        recorded.await.map(|Json(())| StatusCode::NO_CONTENT)
    };
    to_the_end(change).await
}

/// Lists the leases that the caller may read.
pub(super) async fn list(call: Call<'_>) -> Result<WrittenJson, Problem> {
    let (store, namespace) = (call.store, call.namespace()?);
    let query = ListQuery::of(&call.head.uri)?;
    let readable = call.caller.readable(namespace.as_str());
    let prefixes = common_prefixes(&readable, &query.prefix);
    let after = query.after.map(|name| LeaseKey::new(&namespace, &name));
    let list = async {
        let mut page = PageOfJson::begin("leases");
        let mut last: Option<String> = None;
        // The prefixes are sorted and do not overlap, so their leases together are in order.
        for (index, prefix) in prefixes.iter().enumerate() {
            let mut after = after.clone();
            loop {
                let count = TURN.min(query.limit - page.len());
                let listed = store.list(namespace.as_str(), prefix, after.as_ref(), count);
                let listed = listed.await?;
                for view in listed.leases {
                    if !page.push(&view).await? {
                        return page.end_with_next(last.as_ref());
                    }
                    last = Some(view.lease);
                }
                let has_more = listed.next.is_some() || index + 1 < prefixes.len();
                if page.len() == query.limit && has_more {
                    return page.end_with_next(last.as_ref());
                }
                let Some(next) = listed.next else {
                    break;
                };
                after = LeaseKey::of_path(namespace.as_str(), &next);
            }
        }
        page.end_with_next(None::<&String>)
    };
    in_time(store, Duration::ZERO, list).await
}

/// Returns the prefixes of the names that begin both with one of `readable` and with `wanted`.
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

/// Returns the answer of `work`, which may wait for `wait` in addition to the time limit of a
/// request.
pub(super) async fn answer<T>(
    store: &Store,
    wait: Duration,
    work: impl Future<Output = Result<T, Problem>>,
) -> JsonResult<T> {
    Ok(Json(in_time(store, wait, work).await?))
}

/// Like [`answer`], without the conversion to JSON.
pub(super) async fn in_time<T>(
    store: &Store,
    wait: Duration,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let mut work = pin!(work);
    // Most requests do not wait, and need no timer.
    if let Some(done) = work.as_mut().now_or_never() {
        return done;
    }
    let most = store.limits().request_time;
    let in_time = tokio::time::timeout(wait + most, work).await;
    in_time.map_err(|_| {
        Problem::new(
            Code::RequestTimeout,
            format!("the request took longer than {most:?}; the store may still execute it"),
        )
    })?
}

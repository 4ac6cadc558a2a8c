//! The routes that show many leases at once.

use std::time::Duration;

use axum::extract::State;
use tenure_core::wire::{NamespaceList, Overview, WaiterList};

use super::body::Json;
use super::leases::{JsonResult, answer};
use super::path::Lease;
use super::problem::ProblemResponse;
use super::query::{NoQuery, OverviewQuery};
use crate::Store;
use crate::access::Caller;

/// Returns the leases that the caller may read.
pub(super) async fn overview(
    State(store): State<Store>,
    caller: Caller,
    OverviewQuery(filter): OverviewQuery,
) -> JsonResult<Overview> {
    let overview = store.overview(&filter, |namespace| caller.readable(namespace));
    answer(&store, Duration::ZERO, overview).await
}

/// Returns the namespaces in which the caller may read leases.
pub(super) async fn namespaces(
    State(store): State<Store>,
    caller: Caller,
    _: NoQuery,
) -> Result<Json<NamespaceList>, ProblemResponse> {
    let namespaces = store.namespaces(|namespace| caller.readable(namespace));
    // After the look: see `Serving`.
    store.ready()?;
    Ok(Json(NamespaceList::new(namespaces)))
}

/// Returns the candidates that wait for a lease.
pub(super) async fn waiters(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
) -> JsonResult<WaiterList> {
    answer(&store, Duration::ZERO, store.waiters(&key)).await
}

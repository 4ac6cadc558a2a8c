//! The routes that show many leases at once.

use std::time::Duration;

use axum::extract::State;
use axum::http::Uri;
use tenure_core::wire::{NamespaceView, Overview};

use super::leases::{JsonResult, answer, in_time};
use super::page_of_json::{PageOfJson, TURN, WrittenJson};
use super::path::Lease;
use super::problem::ProblemResponse;
use super::query::{NoQuery, OverviewQuery, after_namespace};
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
    uri: Uri,
) -> Result<WrittenJson, ProblemResponse> {
    let after = after_namespace(&uri)?;
    let after = after.as_ref().map_or("", |name| name.as_str());
    let namespaces = async {
        let mut page = PageOfJson::begin("namespaces");
        let (mut last, mut next) = (None, None);
        for (number, (namespace, all)) in (1..).zip(store.namespaces(after)) {
            if number % TURN == 0 {
                tokio::task::yield_now().await;
            }
            let leases = match &*caller.readable(&namespace) {
                [""] => all,
                prefixes => store.count(&namespace, prefixes).await,
            };
            if leases == 0 {
                continue;
            }
            let view = NamespaceView::new(namespace, leases as u64);
            if !page.push(&view).await? {
                next = last;
                break;
            }
            last = Some(view.namespace);
        }
        // After the look: see `Serving`.
        store.ready()?;
        page.end_with_next(next.as_ref())
    };
    Ok(in_time(&store, Duration::ZERO, namespaces).await?)
}

/// Returns the candidates that wait for a lease.
pub(super) async fn waiters(
    State(store): State<Store>,
    Lease(key): Lease,
    _: NoQuery,
) -> Result<WrittenJson, ProblemResponse> {
    let waiters = async {
        let mut page = PageOfJson::begin("waiters");
        for waiter in store.waiters(&key).await?.waiters {
            if !page.push(&waiter).await? {
                break;
            }
        }
        Ok(page.end())
    };
    Ok(in_time(&store, Duration::ZERO, waiters).await?)
}

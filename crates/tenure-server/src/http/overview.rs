//! The routes that show many leases at once.

use std::time::Duration;

use tenure_core::wire::{NamespaceView, Overview, Problem};

use super::body::JsonResult;
use super::call::Call;
use super::leases::{answer, in_time};
use super::page_of_json::{PageOfJson, TURN, WrittenJson};
use super::query;

/// Returns the leases that the caller may read.
pub(super) async fn overview(call: Call<'_>) -> JsonResult<Overview> {
    let (store, filter) = (call.store, query::overview(&call.head.uri)?);
    let overview = store.overview(&filter, |namespace| call.caller.readable(namespace));
    answer(store, Duration::ZERO, overview).await
}

/// Returns the namespaces in which the caller may read leases.
pub(super) async fn namespaces(call: Call<'_>) -> Result<WrittenJson, Problem> {
    let store = call.store;
    let after = query::after_namespace(&call.head.uri)?;
    let after = after.as_ref().map_or("", |name| name.as_str());
    let namespaces = async {
        let mut page = PageOfJson::begin("namespaces");
        let (mut last, mut next) = (None, None);
        for (number, (namespace, all)) in (1..).zip(store.namespaces(after)) {
            if number % TURN == 0 {
                tokio::task::yield_now().await;
            }
            let leases = match &*call.caller.readable(&namespace) {
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
    in_time(store, Duration::ZERO, namespaces).await
}

/// Returns the candidates that wait for a lease.
pub(super) async fn waiters(call: Call<'_>) -> Result<WrittenJson, Problem> {
    let (store, key) = (call.store, call.lease()?);
    let waiters = async {
        let mut page = PageOfJson::begin("waiters");
        for waiter in store.waiters(&key).await?.waiters {
            if !page.push(&waiter).await? {
                break;
            }
        }
        Ok(page.end())
    };
    in_time(store, Duration::ZERO, waiters).await
}

//! Liveness, readiness and the limits.

use std::collections::BTreeMap;

use axum::extract::State;
use tenure_core::wire::Code;

use super::body::Json;
use super::problem::ProblemResponse;
use super::query::NoQuery;
use crate::Store;

/// Answers a liveness probe. Any response shows that the store is alive.
pub(super) async fn live(_: NoQuery) -> &'static str {
    "ok\n"
}

/// Answers a readiness probe. The store is not ready while it stops or after its engine failed. A
/// standby of a cluster is ready if it could take over: else a rolling update would wait for ever.
pub(super) async fn ready(
    State(store): State<Store>,
    _: NoQuery,
) -> Result<&'static str, ProblemResponse> {
    match store.ready() {
        Err(problem) if problem.code == Code::NotActive && store.is_standby() => Ok("standby\n"),
        ready => Ok(ready.map(|()| "ok\n")?),
    }
}

/// Returns all limits by the names of their settings; times are in milliseconds.
pub(super) async fn limits(State(store): State<Store>, _: NoQuery) -> Json<BTreeMap<String, u64>> {
    Json(store.limits().by_name())
}

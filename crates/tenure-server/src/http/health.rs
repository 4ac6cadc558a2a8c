//! Liveness, readiness and the limits.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;

use super::problem::ProblemResponse;
use super::query::NoQuery;
use crate::Store;

/// Answers a liveness probe. Any response shows that the store is alive.
pub(super) async fn live(_: NoQuery) -> &'static str {
    "ok\n"
}

/// Answers a readiness probe. The store is not ready while it stops or after its engine failed.
pub(super) async fn ready(
    State(store): State<Store>,
    _: NoQuery,
) -> Result<&'static str, ProblemResponse> {
    store.ready()?;
    Ok("ok\n")
}

/// Returns all limits by the names of their settings; times are in milliseconds.
pub(super) async fn limits(State(store): State<Store>, _: NoQuery) -> Json<BTreeMap<String, u64>> {
    Json(store.limits().by_name())
}

//! Liveness, readiness and the limits.

use std::collections::BTreeMap;

use axum::extract::{Extension, State};
use tenure_core::wire::{Code, Problem};

use super::body::Json;
use super::problem::ProblemResponse;
use super::query::NoQuery;
use crate::Store;
use crate::access::Access;

/// Answers a liveness probe. Any response shows that the store is alive.
pub(super) async fn live(_: NoQuery) -> &'static str {
    "ok\n"
}

/// Answers a readiness probe. The store is not ready while it stops or after its engine failed. A
/// standby of a cluster is ready if it could take over: else a rolling update would wait for ever.
pub(super) async fn ready(
    State(store): State<Store>,
    Extension(access): Extension<Access>,
    _: NoQuery,
) -> Result<&'static str, ProblemResponse> {
    match check_ready(&store, &access) {
        Err(problem) if problem.code == Code::NotActive && store.is_standby() => Ok("standby\n"),
        ready => Ok(ready.map(|()| "ok\n")?),
    }
}

/// Checks that the store accepts requests, for a probe. A probe has no credential, so with access
/// control the refusal names no other server, no address and no error of the engine.
pub(super) fn check_ready(store: &Store, access: &Access) -> Result<(), Problem> {
    store.ready().map_err(|problem| match access.is_guarded() {
        true => Problem::new(problem.code, "GET /v1/cluster and the log have the reason"),
        false => problem,
    })
}

/// Returns all limits by the names of their settings; times are in milliseconds.
pub(super) async fn limits(State(store): State<Store>, _: NoQuery) -> Json<BTreeMap<String, u64>> {
    Json(store.limits().by_name())
}

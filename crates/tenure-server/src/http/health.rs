//! Liveness, readiness and the limits.

use std::collections::BTreeMap;

use tenure_core::wire::{Code, Problem};

use super::body::{Json, JsonResult};
use super::call::Call;
use crate::Store;
use crate::access::Access;

/// Answers a liveness probe. Any response shows that the store is alive.
pub(super) async fn live(_: Call<'_>) -> Result<&'static str, Problem> {
    Ok("ok\n")
}

/// Answers a readiness probe. The store is not ready while it stops or after its home failed. A
/// standby of a cluster is ready if it could take over: else a rolling update would wait for ever.
pub(super) async fn ready(call: Call<'_>) -> Result<&'static str, Problem> {
    match check_ready(call.store, call.access) {
        Err(problem) if problem.code == Code::NotActive && call.store.is_standby() => {
            Ok("standby\n")
        }
        ready => ready.map(|()| "ok\n"),
    }
}

/// Checks that the store accepts requests, for a probe. A probe has no credential, so with access
/// control the refusal names no other server, no address and no error of the home.
pub(super) fn check_ready(store: &Store, access: &Access) -> Result<(), Problem> {
    store.ready().map_err(|problem| match access.is_guarded() {
        true => Problem::new(problem.code, "GET /v1/cluster and the log have the reason"),
        false => problem,
    })
}

/// Returns all limits by the names of their settings; times are in milliseconds.
pub(super) async fn limits(call: Call<'_>) -> JsonResult<BTreeMap<String, u64>> {
    Ok(Json(call.store.limits().by_name()))
}

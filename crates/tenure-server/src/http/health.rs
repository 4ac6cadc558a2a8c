//! Whether the process lives, whether it takes requests, and how many of them.

use std::collections::BTreeMap;

use super::body::Json;
use axum::extract::State;

use super::problem::Failure;
use super::query::NoQuery;
use crate::Store;

/// It answers, so it lives.
pub(super) async fn live(_: NoQuery) -> &'static str {
    "ok\n"
}

/// Not while it stops, nor once its engine failed.
pub(super) async fn ready(State(store): State<Store>, _: NoQuery) -> Result<&'static str, Failure> {
    store.ready()?;
    Ok("ok\n")
}

/// How much it takes of everything, by the names of the settings; times in milliseconds.
pub(super) async fn limits(State(store): State<Store>, _: NoQuery) -> Json<BTreeMap<String, u64>> {
    Json(store.limits().by_name())
}

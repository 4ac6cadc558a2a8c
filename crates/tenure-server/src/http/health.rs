//! Whether the process lives, and whether it takes requests.

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

//! The routes that show and change which server of a cluster is active.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use tenure_core::wire::{ClusterView, Code, Problem, ResignRequest};

use super::auditor::Auditor;
use super::body::OptionalJsonBody;
use super::health::check_ready;
use super::problem::ProblemResponse;
use super::query::NoQuery;
use crate::Store;
use crate::access::Access;

/// Answers a balancer: is this the server that accepts requests? A store that is not in a cluster
/// always is.
pub(super) async fn active(
    State(store): State<Store>,
    Extension(access): Extension<Access>,
    _: NoQuery,
) -> Result<&'static str, ProblemResponse> {
    check_ready(&store, &access)?;
    Ok("active\n")
}

/// Returns the state of this server in its cluster.
pub(super) async fn view(
    State(store): State<Store>,
    _: NoQuery,
) -> Result<Json<ClusterView>, ProblemResponse> {
    let view = store.cluster().ok_or_else(no_cluster)?;
    Ok(Json(view))
}

/// Makes this server give up the log, so that a standby takes over.
pub(super) async fn hand_over(
    State(store): State<Store>,
    auditor: Auditor,
    _: NoQuery,
    OptionalJsonBody(request): OptionalJsonBody<ResignRequest>,
) -> Result<StatusCode, ProblemResponse> {
    store.cluster().ok_or_else(no_cluster)?;
    let resigned = async {
        store.resign(request.to.clone())?;
        Ok(StatusCode::ACCEPTED)
    };
    auditor
        .record_resignation(request.to.clone(), resigned)
        .await
}

fn no_cluster() -> Problem {
    Problem::new(
        Code::UnknownRoute,
        "this store is not a server of a cluster",
    )
}

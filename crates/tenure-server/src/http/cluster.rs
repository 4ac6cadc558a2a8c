//! The routes that show and change which server of a cluster is active.

use axum::http::StatusCode;
use tenure_core::wire::{ClusterView, Code, Problem, ResignRequest, ServerRole};

use super::auditor::Auditor;
use super::body::{Json, JsonResult};
use super::call::{Call, name};
use super::health::check_ready;

/// Answers a balancer: is this the server that accepts requests? A store that is not in a cluster
/// always is.
pub(super) async fn active(call: Call<'_>) -> Result<&'static str, Problem> {
    check_ready(call.store, call.access)?;
    Ok("active\n")
}

/// Returns the state of this server in its cluster.
pub(super) async fn view(call: Call<'_>) -> JsonResult<ClusterView> {
    let view = call.store.cluster().ok_or_else(no_cluster)?;
    Ok(Json(view))
}

/// Makes this server give up the log, so that a standby takes over.
pub(super) async fn hand_over(call: Call<'_>) -> Result<StatusCode, Problem> {
    let request: ResignRequest = call.optional_json()?;
    let view = call.store.cluster().ok_or_else(no_cluster)?;
    if let Some(to) = &request.to {
        name("server", to)?;
        if *to == view.server && view.role == ServerRole::Active {
            let detail = format!("{to} is this server, which is active already");
            return Err(Problem::new(Code::InvalidName, detail));
        }
    }
    let resigned = async {
        call.store.resign(request.to.clone())?;
        Ok(StatusCode::ACCEPTED)
    };
    let auditor = Auditor::of(&call);
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

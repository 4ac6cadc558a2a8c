//! Many renewals in one request.

use axum::extract::State;
use tenure_core::Name;
use tenure_core::lease::{Operation, Rules};
use tenure_core::wire::{
    Code, MAX_RENEWALS, Problem, RenewManyReply, RenewOne, RenewRequest, RenewResult,
};

use super::body::{Json, Renewals};
use super::path::{Namespace, name};
use super::problem::ProblemResponse;
use super::query::NoQuery;
use crate::Store;
use crate::table::LeaseKey;

/// Each renewal succeeds or fails independently.
pub(super) async fn renew(
    State(store): State<Store>,
    Namespace(namespace): Namespace,
    _: NoQuery,
    Renewals(request): Renewals,
) -> Result<Json<RenewManyReply>, ProblemResponse> {
    let count = request.leases.len();
    if count > MAX_RENEWALS {
        return Err(ProblemResponse(Problem::new(
            Code::OutOfRange,
            format!("leases has {count} renewals, at most {MAX_RENEWALS} are allowed"),
        )));
    }
    let renewals = request.leases.into_iter();
    let renewals: Vec<_> = renewals.map(|one| checked(&namespace, one)).collect();
    let results = store.renew_many(&renewals).await;
    let results = results.into_iter().map(|result| match result {
        Ok(view) => RenewResult::View(view.into()),
        Err(problem) => RenewResult::Problem(problem.into()),
    });
    Ok(Json(RenewManyReply {
        results: results.collect(),
    }))
}

fn checked(namespace: &Name, one: RenewOne) -> Result<(LeaseKey, Operation), Problem> {
    let lease = name("lease", &one.lease).map_err(|ProblemResponse(problem)| problem)?;
    let request = RenewRequest {
        lease_id: one.lease_id,
        duration_ms: None,
    };
    Ok((
        LeaseKey::new(namespace, &lease),
        request.check(&Rules::NATIVE)?,
    ))
}

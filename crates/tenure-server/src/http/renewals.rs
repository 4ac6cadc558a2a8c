//! Many renewals in one request.

use tenure_core::Name;
use tenure_core::lease::{Operation, Rules};
use tenure_core::wire::{
    Code, MAX_RENEWALS, Problem, RenewManyRequest, RenewOne, RenewRequest, RenewResult,
};

use super::call::{Call, name};
use super::leases::CANDIDATE;
use super::page_of_json::{PageOfJson, WrittenJson};
use crate::access::{Caller, Target};
use crate::table::LeaseKey;

/// The maximum size of a body, in bytes: enough for a thousand renewals with names of usual
/// lengths.
pub(super) const MAX_BYTES: usize = 256 * 1024;

/// Renews many leases. Each renewal succeeds or fails independently.
pub(super) async fn renew(call: Call<'_>) -> Result<WrittenJson, Problem> {
    let namespace = call.namespace()?;
    let request: RenewManyRequest = call.json()?;
    let count = request.leases.len();
    if count > MAX_RENEWALS {
        let detail = format!("leases has {count} renewals, at most {MAX_RENEWALS} are allowed");
        return Err(Problem::new(Code::OutOfRange, detail));
    }
    let renewals = request.leases.into_iter();
    let renewals: Vec<_> = renewals
        .map(|one| checked(&call.caller, &namespace, one))
        .collect();
    let results = call
        .store
        .renew_many_as(call.caller.owner(), &renewals)
        .await;
    let mut answer = PageOfJson::begin_whole("results");
    for result in results {
        let result = match result {
            Ok(view) => RenewResult::View(view.into()),
            Err(problem) => {
                call.scrape.refusals.add(problem.code);
                RenewResult::Problem(problem.into())
            }
        };
        answer.push(&result).await?;
    }
    Ok(answer.end())
}

fn checked(
    caller: &Caller,
    namespace: &Name,
    one: RenewOne,
) -> Result<(LeaseKey, Operation), Problem> {
    let lease = name("lease", &one.lease)?;
    let target = Target::Lease(namespace.as_str(), lease.as_str());
    caller.check(CANDIDATE, target)?;
    let request = RenewRequest {
        lease_id: one.lease_id,
        duration_ms: None,
    };
    Ok((
        LeaseKey::new(namespace, &lease),
        request.check(&Rules::NATIVE)?,
    ))
}

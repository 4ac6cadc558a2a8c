//! Operations without a principal, for the tests that are not about owners.

use tenure_core::lease::Operation;
use tenure_core::wire::{LeaseView, Problem, Queued};

use crate::Store;
use crate::model::LeaseKey;
use crate::shares::Tenant;

impl Store {
    pub(crate) async fn operate(
        &self,
        key: &LeaseKey,
        operation: &Operation,
        reason: Option<String>,
    ) -> Result<LeaseView, Problem> {
        self.operate_as(None, key, operation, reason).await
    }

    pub(crate) async fn acquire(
        &self,
        key: &LeaseKey,
        queued: &Queued,
    ) -> Result<LeaseView, Problem> {
        let never = std::future::pending();
        self.acquire_as((None, &Tenant::Unknown), key, queued, never)
            .await
    }

    pub(crate) async fn renew_many(
        &self,
        renewals: &[Result<(LeaseKey, Operation), Problem>],
    ) -> Vec<Result<LeaseView, Problem>> {
        self.renew_many_as(None, renewals).await
    }
}

//! Calls that don't wait for other clients: they read or change a lease, wait for the disk, and
//! then answer.

use tenure_core::Epoch;
use tenure_core::lease::{Change, Operation, Owner, Rules};
use tenure_core::wire::{LeaseList, LeaseView, Problem, VerifyReply};

use super::Store;
use super::observe::{IfMissing, undone, unknown};
use super::transaction::LeaseTransaction;
use crate::metrics::RenewalKind;
use crate::model::LeaseKey;
use crate::table::Entry;

impl Store {
    /// Executes one operation of this principal on an existing lease. Returns the view of the lease
    /// right after the operation.
    pub(crate) async fn operate_as(
        &self,
        owner: Option<&Owner>,
        key: &LeaseKey,
        operation: &Operation,
        reason: Option<String>,
    ) -> Result<LeaseView, Problem> {
        self.check_ready_for(operation)?;
        let request = |transaction: &mut LeaseTransaction<'_>| {
            transaction.operate(owner, operation, reason.clone())
        };
        let seen = self.execute(key, IfMissing::Refuse, request).await?;
        let view = seen.into_view(key)?;
        if matches!(operation, Operation::Renew(..)) {
            self.inner.metrics.renewed(RenewalKind::One);
        }
        Ok(view)
    }

    /// Checks that the store accepts the operation. While the store stops, a holder may still renew
    /// or release its lease.
    pub(super) fn check_ready_for(&self, operation: &Operation) -> Result<(), Problem> {
        match operation {
            Operation::Renew(..) | Operation::Release(_) => Ok(()),
            _ => self.ready(),
        }
    }

    /// Renews each of these leases for this principal, in order. An error in the list stays
    /// unchanged.
    ///
    /// All renewals run before the first one is waited for. Otherwise the other leases could expire
    /// during the commit of the first one. The function then waits for all of them, which needs
    /// only a few commits. Other requests have turns in between.
    pub(crate) async fn renew_many_as(
        &self,
        owner: Option<&Owner>,
        renewals: &[Result<(LeaseKey, Operation), Problem>],
    ) -> Vec<Result<LeaseView, Problem>> {
        let mut begun = Vec::with_capacity(renewals.len());
        for renewal in renewals {
            tokio::task::consume_budget().await;
            begun.push(renewal.as_ref().map(|(key, operation)| {
                let renew = |transaction: &mut LeaseTransaction<'_>| {
                    transaction.operate(owner, operation, None)
                };
                (key, self.execute(key, IfMissing::Refuse, renew))
            }));
        }
        let mut results = Vec::with_capacity(begun.len());
        for renewal in begun {
            let result = match renewal {
                Ok((key, seen)) => seen.await.and_then(|seen| seen.into_view(key)),
                Err(problem) => Err(problem.clone()),
            };
            if result.is_ok() {
                self.inner.metrics.renewed(RenewalKind::Many);
            }
            results.push(result);
        }
        results
    }

    /// Executes [`Operation::Verify`]: returns whether the term with this epoch still runs.
    pub(crate) async fn verify(
        &self,
        key: &LeaseKey,
        operation: &Operation,
    ) -> Result<VerifyReply, Problem> {
        self.ready()?;
        let verify = |transaction: &mut LeaseTransaction<'_>| {
            transaction.apply(&Rules::NATIVE, None, operation, None)
        };
        let seen = self.execute(key, IfMissing::Refuse, verify).await?;
        if self.inner.member.is_some() && !self.inner.confirms() {
            // Receivers refuse writes by this answer, so no clock may decide it.
            let confirmed = self.inner.commit_queue.confirm();
            confirmed.durable().await.map_err(undone)?;
        }
        let verified = seen.value.ok_or_else(|| unknown(key))?;
        let verified = verified.map_err(|rejection| Problem::from(&rejection))?;
        let (current, epoch) = match verified.change {
            Change::Verified { current, epoch } => (current, epoch.map(Epoch::get)),
            _ => (false, None),
        };
        Ok(VerifyReply { current, epoch })
    }

    /// Returns the current view of the lease.
    pub(crate) async fn view(&self, key: &LeaseKey) -> Result<LeaseView, Problem> {
        self.ready()?;
        let view = |transaction: &mut LeaseTransaction<'_>| Ok(transaction.view());
        let seen = self.execute(key, IfMissing::Refuse, view).await?;
        seen.into_view(key)
    }

    /// Returns whether the lease exists. The change that created it may not be durable yet.
    pub(crate) fn knows(&self, key: &LeaseKey) -> bool {
        let shard = self.inner.table.lock(key);
        shard.get(key).is_some_and(Entry::is_known)
    }

    /// Deletes a lease that no candidate holds.
    pub(crate) async fn delete(&self, key: &LeaseKey) -> Result<(), Problem> {
        self.ready()?;
        let delete = |transaction: &mut LeaseTransaction<'_>| transaction.delete();
        let seen = self.execute(key, IfMissing::Refuse, delete).await?;
        seen.value.ok_or_else(|| unknown(key))?
    }

    /// Returns up to `limit` leases of `namespace` whose names start with `prefix`, after the name
    /// `after`.
    pub(crate) async fn list(
        &self,
        namespace: &str,
        prefix: &str,
        after: Option<&LeaseKey>,
        limit: usize,
    ) -> Result<LeaseList, Problem> {
        self.ready()?;
        let prefix = format!("{namespace}/{prefix}");
        let mut leases: Vec<LeaseView> = Vec::new();
        let mut last = after.cloned();
        loop {
            // One lease more than requested shows whether there are more. Leases that were deleted
            // or not created yet are skipped, so this may take several rounds.
            let count = limit + 1 - leases.len();
            let keys = self.inner.table.keys(&prefix, last.as_ref(), count);
            let found = keys.len();
            let view = |transaction: &mut LeaseTransaction<'_>| Ok(transaction.view());
            let begun = keys
                .iter()
                .map(|key| (key, self.execute(key, IfMissing::Refuse, view)));
            // All leases are read before the first one is waited for, so that they wait for the
            // same few commits.
            for (key, seen) in begun.collect::<Vec<_>>() {
                let seen = seen.await?;
                if seen.value.is_some() {
                    let view = seen.into_view(key)?;
                    if leases.len() == limit {
                        let next = leases.last().map(|view| view.lease.clone());
                        return Ok(LeaseList { leases, next });
                    }
                    leases.push(view);
                }
                last = Some(key.clone());
            }
            if found < count {
                return Ok(LeaseList { leases, next: None });
            }
        }
    }
}

impl LeaseTransaction<'_> {
    /// Executes one operation under the rules of the native API. Returns the view right after the
    /// operation.
    fn operate(
        &mut self,
        owner: Option<&Owner>,
        operation: &Operation,
        reason: Option<String>,
    ) -> Result<LeaseView, Problem> {
        self.apply(&Rules::NATIVE, owner, operation, reason)
            .map_err(|rejection| Problem::from(&rejection))?;
        Ok(match operation {
            Operation::Change { proposed, .. } => self.view().with_lease_id(*proposed),
            _ => self.view(),
        })
    }
}

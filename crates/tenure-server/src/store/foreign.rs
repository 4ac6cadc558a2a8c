//! The store's API for another protocol: operations on leases under the rules of that protocol, and
//! documents.
//!
//! Operations take the same locks, the same [`lease::apply`] and the same commits as the native
//! API. A lease that was acquired through one protocol is therefore held, and refused to others,
//! through all of them. Documents are committed like changes of leases, in the same order, and a
//! backup contains them.

use std::sync::PoisonError;

use axum::body::Bytes;
use tenure_core::lease::{
    self, Change, LeaseDuration, Operation, Owner, Record, Rejection, Rules, State,
};
use tenure_core::wire::Problem;
use tenure_core::{Epoch, Instant};

use super::Store;
use super::observe::{IfMissing, undone};
use super::transaction::LeaseTransaction;
use crate::engine::Document;
use crate::metrics::RenewalKind;
use crate::model::{ChangeSet, DocumentChange, LeaseKey};

/// The state of a lease at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseSnapshot {
    /// The state of the lease.
    pub state: State,
    /// The time for which the lease lasts without a renewal, if it is held.
    pub duration: Option<LeaseDuration>,
    /// The epoch of the current term, or of the last one.
    pub epoch: Option<Epoch>,
}

/// The effect on a lease of an access to the resource that the lease protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessEffect {
    /// The lease stays as it is.
    Keep,
    /// A lease that has expired or was broken becomes available, so that its last holder can no
    /// longer renew it. Any other lease stays as it is.
    EndIfOver,
    /// The lease ends and is deleted.
    Delete,
}

impl Store {
    /// Applies one operation of `owner` under `rules`. An acquire creates the lease if it does not
    /// exist, and `owner` owns the term that it begins.
    ///
    /// # Errors
    ///
    /// A [`Problem`] of the store. The inner error is the refusal of the operation, which is an
    /// expected outcome.
    pub async fn operate_by(
        &self,
        rules: &Rules,
        key: &LeaseKey,
        owner: Option<&Owner>,
        operation: &Operation,
        reason: Option<String>,
    ) -> Result<Result<(Change, Option<Epoch>), Rejection>, Problem> {
        self.check_ready_for(operation)?;
        let if_missing = match operation {
            Operation::Acquire(..) => IfMissing::Create,
            _ => IfMissing::Refuse,
        };
        let request = |transaction: &mut LeaseTransaction<'_>| {
            let applied = transaction.apply(rules, owner, operation, reason.clone())?;
            Ok((applied.change, last_epoch(transaction.record())))
        };
        let seen = self.execute(key, if_missing, request).await?;
        if matches!(seen.value, Some(Ok((Change::Renewed(_), _)))) {
            self.inner.metrics.renewed(RenewalKind::One);
        }
        Ok(seen.value.unwrap_or_else(|| {
            // A lease that was never acquired is available.
            let mut nothing = Record::default();
            lease::apply(&mut nothing, operation, Instant::default(), rules)
                .map(|applied| (applied.change, None))
        }))
    }

    /// Reads the lease.
    ///
    /// # Errors
    ///
    /// A [`Problem`] of the store.
    pub async fn snapshot(&self, key: &LeaseKey) -> Result<LeaseSnapshot, Problem> {
        let check = |_: &Record, _| Ok::<_, std::convert::Infallible>(());
        let Ok(snapshot) = self
            .check_access(&Rules::NATIVE, key, check, AccessEffect::Keep)
            .await?;
        Ok(snapshot)
    }

    /// Checks whether the resource that the lease protects may be accessed, and applies the effect
    /// of the access to the lease, in one step: no acquire can happen in between. `check` may run
    /// several times; it gets the record of the lease and the current time.
    ///
    /// # Errors
    ///
    /// A [`Problem`] of the store. The inner error is that of `check`.
    pub async fn check_access<E>(
        &self,
        rules: &Rules,
        key: &LeaseKey,
        check: impl Fn(&Record, Instant) -> Result<(), E>,
        effect: AccessEffect,
    ) -> Result<Result<LeaseSnapshot, E>, Problem> {
        self.ready()?;
        let access = |transaction: &mut LeaseTransaction<'_>| {
            let (record, now) = (transaction.record(), transaction.now);
            check(record, now)?;
            let snapshot = LeaseSnapshot::of(record, now);
            let last = record.last_grant().cloned();
            if effect == AccessEffect::Keep || !transaction.may_change() {
                return Ok(snapshot);
            }
            let ends = match effect {
                AccessEffect::Delete => snapshot.state != State::Available,
                _ => matches!(snapshot.state, State::Expired | State::Broken),
            };
            if let (true, Some(last)) = (ends, last) {
                // In each of these states the owner of the last grant can release the lease.
                let release = Operation::Release(last.lease_id);
                let _ = transaction.apply(rules, last.owner.as_ref(), &release, None);
            }
            if effect == AccessEffect::Delete {
                // A lease that was handed over and is reserved for a candidate is not deleted. It
                // stays available.
                let _ = transaction.delete();
            }
            Ok(snapshot)
        };
        let seen = self.execute(key, IfMissing::Refuse, access).await?;
        Ok(seen.value.unwrap_or_else(|| {
            // A lease that was never acquired is available.
            let (nothing, now) = (Record::default(), Instant::default());
            check(&nothing, now).map(|()| LeaseSnapshot::of(&nothing, now))
        }))
    }

    /// Returns the documents that the store had when it was opened, and removes them from memory.
    #[must_use]
    pub fn take_documents(&self) -> Vec<Document> {
        let documents = self.inner.documents.lock();
        std::mem::take(&mut *documents.unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes documents, and deletes those without content: either all of them or none. Returns the
    /// revision of the last one. Later changes have greater revisions, also after a restart or a
    /// restore.
    ///
    /// The caller makes one call at a time, and keeps the documents in memory: the store has them
    /// only on disk.
    ///
    /// # Errors
    ///
    /// A [`Problem`] of the store: nothing was written.
    pub async fn write_documents(
        &self,
        changes: impl IntoIterator<Item = (String, Option<Bytes>)>,
    ) -> Result<u64, Problem> {
        let documents = changes.into_iter().map(|(name, content)| DocumentChange {
            name,
            revision: 0,
            content,
        });
        let set = ChangeSet {
            documents: documents.collect(),
            ..ChangeSet::default()
        };
        let (revision, ticket) = {
            // The queue is not closed while a shard is locked.
            let _shards = self.inner.table.lock_all();
            self.inner.check_open()?;
            self.inner.commit_queue.append(set)
        };
        if let Some(ticket) = ticket {
            ticket.durable().await.map_err(undone)?;
        }
        Ok(revision)
    }
}

impl LeaseSnapshot {
    fn of(record: &Record, now: Instant) -> Self {
        Self {
            state: record.state(now),
            duration: record.held(now).map(|grant| grant.duration),
            epoch: last_epoch(record),
        }
    }
}

fn last_epoch(record: &Record) -> Option<Epoch> {
    record.last_grant().map(|grant| grant.epoch)
}

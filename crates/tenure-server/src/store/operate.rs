//! Calls that don't wait for other clients: they read or change a lease, wait for the disk, and answer.

use tenure_core::Epoch;
use tenure_core::lease::{self, Change, Operation, Owner, Rules};
use tenure_core::wire::{Code, LeaseList, LeaseView, Problem, VerifyReply};

use super::observe::{IfMissing, Observation};
use super::transaction::LeaseTransaction;
use super::{Inner, Store, failed};
use crate::commit_queue::CommitFailure;
use crate::model::LeaseKey;
use crate::table::Entry;

/// How often a request is tried whose answer rests on changes of other requests that are undone. Each attempt
/// waits for one of their commits, so this is not a hot loop. The number is far above what a renewal needs to
/// come between dozens of clients that try to change the same lease on a full disk; `request_time` ends it
/// before.
const ATTEMPTS: u32 = 1_000;

/// The most bytes of JSON on a page: a client need not have memory for a thousand leases with large metadata.
/// One lease always fits.
const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;

impl Store {
    /// Does one operation of this principal on a lease that exists. Returns the lease right after it.
    pub(crate) async fn operate_as(
        &self,
        owner: Option<&Owner>,
        key: &LeaseKey,
        operation: &Operation,
        reason: Option<String>,
    ) -> Result<LeaseView, Problem> {
        if !matches!(operation, Operation::Renew(..) | Operation::Release(_)) {
            self.ready()?;
        }
        let proposed = match operation {
            Operation::Change { proposed, .. } => Some(*proposed),
            _ => None,
        };
        let work = |transaction: &mut LeaseTransaction<'_>| {
            transaction
                .apply(owner, operation, reason.clone())
                .map_err(|rejection| Problem::from(&rejection))?;
            let view = transaction.view();
            Ok(match proposed {
                Some(lease_id) => view.with_lease_id(lease_id),
                None => view,
            })
        };
        let refuse = refuses(owner, operation);
        let seen = self.change(key, IfMissing::Refuse, work, refuse).await?;
        let view = seen.value.ok_or_else(|| unknown(key))??;
        Ok(at(view, seen.revision))
    }

    /// Renews each of these for this principal, in order. An error in the list stays as it is.
    ///
    /// It renews all before it waits for any, so that a commit that one rests on does not let the others
    /// expire, and all wait for the same few commits.
    pub(crate) async fn renew_many_as(
        &self,
        owner: Option<&Owner>,
        renewals: Vec<Result<(LeaseKey, Operation), Problem>>,
    ) -> Vec<Result<LeaseView, Problem>> {
        let renew = |transaction: &mut LeaseTransaction<'_>, operation: &Operation| {
            transaction
                .apply(owner, operation, None)
                .map(|_| transaction.view())
                .map_err(|rejection| Problem::from(&rejection))
        };
        let inner = &self.inner;
        let mut begun = Vec::with_capacity(renewals.len());
        for renewal in renewals {
            begun.push(renewal.map(|(key, operation)| {
                let seen = inner.transact(&key, IfMissing::Refuse, |transaction| {
                    renew(transaction, &operation)
                });
                (seen, key, operation)
            }));
        }
        let mut results = Vec::with_capacity(begun.len());
        for renewal in begun {
            let answer = async {
                let (seen, key, operation) = renewal?;
                let mut first = Some(seen);
                let attempt = || match first.take() {
                    Some(first) => first,
                    None => {
                        let work =
                            |transaction: &mut LeaseTransaction<'_>| renew(transaction, &operation);
                        inner.retry(&key, IfMissing::Refuse, work, refuses(owner, &operation))
                    }
                };
                let seen = self.answer(attempt).await?;
                let view = seen.value.ok_or_else(|| unknown(&key))??;
                Ok(at(view, seen.revision))
            };
            results.push(answer.await);
        }
        results
    }

    /// Whether the term of `epoch` still holds.
    pub(crate) async fn verify(
        &self,
        key: &LeaseKey,
        epoch: Epoch,
    ) -> Result<VerifyReply, Problem> {
        self.ready()?;
        let work = |transaction: &mut LeaseTransaction<'_>| {
            let applied = transaction
                .apply(None, &Operation::Verify(epoch), None)
                .map_err(|rejection| Problem::from(&rejection))?;
            let (current, epoch) = match applied.change {
                Change::Verified { current, epoch } => (current, epoch),
                _ => (false, None),
            };
            let epoch = epoch.map(Epoch::get);
            Ok(VerifyReply { current, epoch })
        };
        let seen = self.read(key, work).await?;
        seen.value.ok_or_else(|| unknown(key))?
    }

    /// The lease as it is.
    pub(crate) async fn view(&self, key: &LeaseKey) -> Result<LeaseView, Problem> {
        self.ready()?;
        let seen = self.read(key, |transaction| transaction.view()).await?;
        let view = seen.value.ok_or_else(|| unknown(key))?;
        Ok(at(view, seen.revision))
    }

    /// Whether the lease exists; the change that made it may not be durable yet.
    pub(crate) fn knows(&self, key: &LeaseKey) -> bool {
        let shard = self.inner.table.lock(key);
        shard.get(key).is_some_and(Entry::is_known)
    }

    /// Deletes a lease that no candidate holds.
    pub(crate) async fn delete(&self, key: &LeaseKey) -> Result<(), Problem> {
        self.ready()?;
        let work = |transaction: &mut LeaseTransaction<'_>| {
            transaction
                .delete()
                .map_err(|rejection| Problem::from(&rejection))
        };
        let refuse = |transaction: &LeaseTransaction<'_>| {
            let deletable = lease::deletable(transaction.record(), transaction.now());
            deletable.err().map(|rejection| Err((&rejection).into()))
        };
        let seen = self.change(key, IfMissing::Refuse, work, refuse).await?;
        seen.value.ok_or_else(|| unknown(key))?
    }

    /// Up to `limit` leases of `namespace` whose names start with `prefix`, after the name `after`; fewer if
    /// they are large.
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
        let mut bytes = 0;
        let mut has_more = false;
        let mut last = after.cloned();
        'page: loop {
            // One more than asked for shows whether there are more. Leases that were deleted or
            // not made yet are passed over, so this may take several rounds.
            let count = limit + 1 - leases.len();
            let keys = self.inner.table.keys(&prefix, last.as_ref(), count);
            let found = keys.len();
            let mut seen = Vec::with_capacity(found);
            for key in keys {
                let view = |transaction: &mut LeaseTransaction<'_>| transaction.view();
                seen.push((self.inner.transact(&key, IfMissing::Refuse, view)?, key));
            }
            for (first, key) in seen {
                let mut first = Some(first);
                let again = || match first.take() {
                    Some(first) => Ok(first),
                    None => self
                        .inner
                        .read_durable(&key, |transaction| transaction.view()),
                };
                let seen = self.answer(again).await?;
                if let Some(view) = seen.value {
                    let view = at(view, seen.revision);
                    bytes += json_bytes(&view);
                    let is_large = bytes > MAX_PAGE_BYTES && !leases.is_empty();
                    has_more = is_large || leases.len() == limit;
                    if has_more {
                        break 'page;
                    }
                    leases.push(view);
                }
                last = Some(key);
            }
            if found < count {
                break;
            }
        }
        let next = leases.last().filter(|_| has_more);
        let next = next.map(|view| view.lease.clone());
        Ok(LeaseList { leases, next })
    }

    /// Does `work` with a lease. `refuse` is what `work` answers if it refuses.
    pub(super) async fn change<T>(
        &self,
        key: &LeaseKey,
        if_missing: IfMissing,
        work: impl Fn(&mut LeaseTransaction<'_>) -> T,
        refuse: impl Fn(&LeaseTransaction<'_>) -> Option<T>,
    ) -> Result<Observation<Option<T>>, Problem> {
        let mut is_first = true;
        self.answer(|| {
            if std::mem::take(&mut is_first) {
                self.inner.transact(key, if_missing, &work)
            } else {
                self.inner.retry(key, if_missing, &work, &refuse)
            }
        })
        .await
    }

    /// Reads a lease. `read` changes nothing.
    pub(super) async fn read<T>(
        &self,
        key: &LeaseKey,
        read: impl Fn(&mut LeaseTransaction<'_>) -> T,
    ) -> Result<Observation<Option<T>>, Problem> {
        let mut is_first = true;
        self.answer(|| {
            if std::mem::take(&mut is_first) {
                self.inner.transact(key, IfMissing::Refuse, &read)
            } else {
                // Due steps or changes of other requests could not be written. The read is answered
                // all the same.
                self.inner.read_durable(key, &read)
            }
        })
        .await
    }

    /// Does `attempt`, and returns what it saw when that is durable.
    pub(super) async fn answer<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Observation<T>, Problem>,
    ) -> Result<Observation<T>, Problem> {
        let mut attempts = 0;
        loop {
            let mut seen = attempt()?;
            attempts += 1;
            let Some(ticket) = seen.ticket.take() else {
                return Ok(seen);
            };
            // Boxed, because most calls don't wait and each would carry the room for it about.
            match Box::pin(ticket.durable()).await {
                Ok(()) => return Ok(seen),
                Err(CommitFailure::Failed) => return Err(failed()),
                // It rested on a change of another request, which was undone: try again.
                Err(_) if seen.repeatable && attempts < ATTEMPTS => {}
                Err(failure) => return Err(not_kept(failure)),
            }
        }
    }
}

impl Inner {
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }
}

/// Why the operation is refused, as its answer.
fn refuses<T>(
    owner: Option<&Owner>,
    operation: &Operation,
) -> impl Fn(&LeaseTransaction<'_>) -> Option<Result<T, Problem>> {
    move |transaction| {
        let rejection = transaction.refusal(&Rules::NATIVE, owner, operation)?;
        Some(Err((&rejection).into()))
    }
}

/// The view, as of this revision.
pub(super) fn at(view: LeaseView, revision: u64) -> LeaseView {
    LeaseView { revision, ..view }
}

fn json_bytes(view: &LeaseView) -> usize {
    serde_json::to_vec(view).map_or(0, |json| json.len())
}

pub(super) fn unknown(key: &LeaseKey) -> Problem {
    Problem::new(
        Code::UnknownLease,
        format!("namespace {} has no lease {}", key.namespace(), key.lease()),
    )
}

pub(super) fn not_kept(failure: CommitFailure) -> Problem {
    match failure {
        CommitFailure::DiskFull => Problem::new(
            Code::DiskFull,
            "the store's disk is full, so the change was undone; renewals still work",
        ),
        CommitFailure::Busy => Problem::new(
            Code::EngineUnavailable,
            "another program has the store's database locked, so the change was undone",
        ),
        CommitFailure::Failed => failed(),
    }
}

//! Calls that don't wait for others: they look or change, wait for the disk, and answer.

use tenure_core::Epoch;
use tenure_core::lease::{self, Change, Operation, Rules};
use tenure_core::wire::{Code, LeaseList, LeaseView, Problem, VerifyReply};

use super::work::{Seen, Unknown, Work};
use super::{Inner, Store, failed};
use crate::journal::Undone;
use crate::table::{Entry, Key};

/// How often a request is tried whose answer rests on steps of others that are undone. Each attempt waits
/// for one commit of theirs, so this is no hot loop. The number is far above what a renewal needs to come
/// between dozens of clients that try on a full disk to change the same lease; `request_time` is over
/// before.
const ATTEMPTS: u32 = 1_000;

/// Most bytes of the leases on a page, as JSON: a client need not have room for a thousand leases with all
/// that may be said of them. One lease always fits.
const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;

impl Store {
    /// Does one operation on a lease that is there. The view is the lease as it is right after it.
    pub(crate) async fn operate(
        &self,
        key: &Key,
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
        let work = |work: &mut Work<'_>| {
            work.apply(operation, reason.clone())
                .map_err(|rejection| Problem::from(&rejection))?;
            let view = work.view();
            Ok(match proposed {
                Some(lease_id) => view.with_lease_id(lease_id),
                None => view,
            })
        };
        let refuse = refuses(operation);
        let seen = self.change(key, Unknown::Refuse, work, refuse).await?;
        let view = seen.value.ok_or_else(|| unknown(key))??;
        Ok(at(view, seen.revision))
    }

    /// Renews each of these, in order; what failed already stays as it is.
    ///
    /// All are renewed before any is waited for, so that a commit that one rests on does not let the
    /// others expire, and all wait for the same few commits.
    pub(crate) async fn renew_many(
        &self,
        renewals: Vec<Result<(Key, Operation), Problem>>,
    ) -> Vec<Result<LeaseView, Problem>> {
        let renew = |work: &mut Work<'_>, operation: &Operation| {
            work.apply(operation, None)
                .map(|_| work.view())
                .map_err(|rejection| Problem::from(&rejection))
        };
        let inner = &self.inner;
        let mut begun = Vec::with_capacity(renewals.len());
        for renewal in renewals {
            begun.push(renewal.map(|(key, operation)| {
                let seen = inner.work(&key, Unknown::Refuse, |work| renew(work, &operation));
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
                        let work = |work: &mut Work<'_>| renew(work, &operation);
                        inner.work_again(&key, Unknown::Refuse, work, refuses(&operation))
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
    pub(crate) async fn verify(&self, key: &Key, epoch: Epoch) -> Result<VerifyReply, Problem> {
        self.ready()?;
        let work = |work: &mut Work<'_>| {
            let applied = work
                .apply(&Operation::Verify(epoch), None)
                .map_err(|rejection| Problem::from(&rejection))?;
            let (current, epoch) = match applied.change {
                Change::Verified { current, epoch } => (current, epoch),
                _ => (false, None),
            };
            let epoch = epoch.map(Epoch::get);
            Ok(VerifyReply { current, epoch })
        };
        let seen = self.look_at(key, work).await?;
        seen.value.ok_or_else(|| unknown(key))?
    }

    /// The lease as it is.
    pub(crate) async fn view(&self, key: &Key) -> Result<LeaseView, Problem> {
        self.ready()?;
        let seen = self.look_at(key, |work| work.view()).await?;
        let view = seen.value.ok_or_else(|| unknown(key))?;
        Ok(at(view, seen.revision))
    }

    /// Whether there is such a lease, as far as anybody can know just now.
    pub(crate) fn knows(&self, key: &Key) -> bool {
        let shard = self.inner.table.lock(key);
        shard.get(key).is_some_and(Entry::is_known)
    }

    /// Forgets a lease that nobody holds.
    pub(crate) async fn delete(&self, key: &Key) -> Result<(), Problem> {
        self.ready()?;
        let work =
            |work: &mut Work<'_>| work.delete().map_err(|rejection| Problem::from(&rejection));
        let refuse = |work: &Work<'_>| {
            let deletable = lease::deletable(work.entry.lease.record(), work.now);
            deletable.err().map(|rejection| Err((&rejection).into()))
        };
        let seen = self.change(key, Unknown::Refuse, work, refuse).await?;
        seen.value.ok_or_else(|| unknown(key))?
    }

    /// Up to `limit` leases of `namespace` whose names start with `prefix`, after the name `after`; fewer if
    /// they are large.
    pub(crate) async fn list(
        &self,
        namespace: &str,
        prefix: &str,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<LeaseList, Problem> {
        self.ready()?;
        let prefix = format!("{namespace}/{prefix}");
        let mut leases: Vec<LeaseView> = Vec::new();
        let mut bytes = 0;
        let mut has_more = false;
        let mut last = after.cloned();
        'page: loop {
            // One more than asked for tells whether there are more. Leases that were deleted or
            // not made yet are passed over, so this may take several rounds.
            let count = limit + 1 - leases.len();
            let keys = self.inner.table.keys(&prefix, last.as_ref(), count);
            let found = keys.len();
            let mut seen = Vec::with_capacity(found);
            for key in keys {
                let view = |work: &mut Work<'_>| work.view();
                seen.push((self.inner.work(&key, Unknown::Refuse, view)?, key));
            }
            for (first, key) in seen {
                let mut first = Some(first);
                let again = || match first.take() {
                    Some(first) => Ok(first),
                    None => self.inner.look_at(&key, |work| work.view()),
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
        key: &Key,
        unknown: Unknown,
        work: impl Fn(&mut Work<'_>) -> T,
        refuse: impl Fn(&Work<'_>) -> Option<T>,
    ) -> Result<Seen<Option<T>>, Problem> {
        let mut is_first = true;
        self.answer(|| {
            if std::mem::take(&mut is_first) {
                self.inner.work(key, unknown, &work)
            } else {
                self.inner.work_again(key, unknown, &work, &refuse)
            }
        })
        .await
    }

    /// Looks at a lease that is there. `look` changes nothing.
    pub(super) async fn look_at<T>(
        &self,
        key: &Key,
        look: impl Fn(&mut Work<'_>) -> T,
    ) -> Result<Seen<Option<T>>, Problem> {
        let mut is_first = true;
        self.answer(|| {
            if std::mem::take(&mut is_first) {
                self.inner.work(key, Unknown::Refuse, &look)
            } else {
                // What is due, or what others did, could not be written. The read is answered all the same.
                self.inner.look_at(key, &look)
            }
        })
        .await
    }

    /// Does `attempt`, waits until what it saw is durable, and only then lets it be told.
    pub(super) async fn answer<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Seen<T>, Problem>,
    ) -> Result<Seen<T>, Problem> {
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
                Err(Undone::Failed) => return Err(failed()),
                // It rested on somebody else's change, and that is gone: look again.
                Err(_) if seen.repeatable && attempts < ATTEMPTS => {}
                Err(undone) => return Err(not_kept(undone)),
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
fn refuses<T>(operation: &Operation) -> impl Fn(&Work<'_>) -> Option<Result<T, Problem>> {
    |work| {
        let rejection = work.refusal(&Rules::NATIVE, operation)?;
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

pub(super) fn unknown(key: &Key) -> Problem {
    Problem::new(
        Code::UnknownLease,
        format!("namespace {} has no lease {}", key.namespace(), key.lease()),
    )
}

pub(super) fn not_kept(undone: Undone) -> Problem {
    match undone {
        Undone::DiskFull => Problem::new(
            Code::DiskFull,
            "the store's disk is full, so the change was undone; renewals still work",
        ),
        Undone::Busy => Problem::new(
            Code::EngineUnavailable,
            "another program has the store's database locked, so the change was undone",
        ),
        Undone::Failed => failed(),
    }
}

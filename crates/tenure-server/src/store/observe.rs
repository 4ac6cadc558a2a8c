//! Locks one lease, lets a request read or change it, and says what the answer must wait for.

use tenure_core::lease::Record;
use tenure_core::wire::{Code, Problem};

use super::transaction::LeaseTransaction;
use super::{Entry, Inner};
use crate::commit_queue::Ticket;
use crate::config::Limits;
use crate::model::LeaseKey;
use crate::table::Full;

/// The result of a request, with the ticket that its answer must wait for.
pub(super) struct Observation<T> {
    pub(super) value: T,
    /// The revision of the lease that the request saw.
    pub(super) revision: u64,
    pub(super) ticket: Option<Ticket>,
    /// The request changed nothing that must be durable, so it may be done again if what it rested on was
    /// undone.
    pub(super) repeatable: bool,
}

/// The behaviour if the lease does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IfMissing {
    /// Make it.
    Create,
    /// Answer that it does not exist.
    Refuse,
}

impl<T> Observation<T> {
    /// One that waits for nothing.
    const fn settled(value: T, revision: u64) -> Self {
        Self {
            value,
            revision,
            ticket: None,
            repeatable: true,
        }
    }

    /// The same with another value.
    pub(super) fn map<U>(self, map: impl FnOnce(T) -> U) -> Observation<U> {
        Observation {
            value: map(self.value),
            revision: self.revision,
            ticket: self.ticket,
            repeatable: self.repeatable,
        }
    }
}

impl Inner {
    /// Locks the lease and calls `work` with it. The value is `None` if there is no lease. Before and
    /// after `work` all due steps are taken: terms end, and waiting requests get the lease.
    pub(super) fn transact<T>(
        &self,
        key: &LeaseKey,
        if_missing: IfMissing,
        work: impl FnOnce(&mut LeaseTransaction<'_>) -> T,
    ) -> Result<Observation<Option<T>>, Problem> {
        let mut shard = self.table.lock(key);
        self.check_open()?;
        if if_missing == IfMissing::Create && shard.get(key).is_none() {
            check_names(key, self.limits.max_name_bytes)?;
            let (floor, now) = (self.floor(), self.clock.now());
            let entry = |left: Option<Record>| {
                let left = left.unwrap_or_default();
                Entry::new(left.deleted(floor, now), 0)
            };
            let made = self.table.make(&mut shard, key, &self.limits, entry);
            made.map_err(|full| over_limit(key, full, &self.limits))?;
        }
        let Some(entry) = shard.get_mut(key) else {
            return Ok(Observation::settled(None, 0));
        };
        let mut seen = Observation::settled(None, entry.revision);
        if entry.is_known() || if_missing == IfMissing::Create {
            let transaction = LeaseTransaction::begin(self, key, entry);
            let (value, done) = transaction.run(work);
            seen.value = Some(value);
            seen.revision = done.revision;
            seen.repeatable = !done.requested;
            seen.ticket = done.ticket;
        }
        if seen.ticket.is_none() {
            seen.ticket = self.commit_queue.ticket(entry.revision);
        }
        entry.drop_idle_interest();
        let durable = self.commit_queue.durable();
        if entry.is_vacant(durable) {
            self.table.tidy(&mut shard, key, durable);
        }
        Ok(seen)
    }

    /// Locks the lease and lets `read` read its durable state at the current time, without a change. The
    /// answer need not wait: it is for requests that rested on changes that were undone.
    ///
    /// Changes that are not durable yet are skipped. They may become durable or be undone; no client has
    /// learned of them, so the answer is that of the moment before them.
    ///
    /// A term that time has ended is shown as ended though the disk does not have that. This grants nothing:
    /// a grant is a change, and the lease stays as it was. The answer has the revision of the last durable
    /// change, because the end has none yet; a poll for a later one goes on waiting. If the store restarts
    /// before the end is written, the lease counts as renewed, as always: the same term may be seen again
    /// under the same epoch, and no other candidate held the lease meanwhile.
    pub(super) fn read_durable<T>(
        &self,
        key: &LeaseKey,
        read: impl FnOnce(&mut LeaseTransaction<'_>) -> T,
    ) -> Result<Observation<Option<T>>, Problem> {
        let mut shard = self.table.lock(key);
        self.check_open()?;
        let Some(entry) = shard.get_mut(key) else {
            return Ok(Observation::settled(None, 0));
        };
        let durable = self.commit_queue.last_durable(key);
        let durable = durable.unwrap_or_else(|| entry.version());
        let current = entry.lease.record().clone();
        entry.lease.restore(durable.record);
        let value = entry.is_known().then(|| {
            let transaction = LeaseTransaction::begin(self, key, entry);
            transaction.read_at_now(read)
        });
        entry.lease.restore(current);
        entry.drop_idle_interest();
        Ok(Observation::settled(value, durable.revision))
    }

    /// Does `work` again, because what it rested on was undone. If `refuse` refuses it by the durable state,
    /// that is the answer, and no change is tried.
    ///
    /// Such a refusal stays true whatever becomes of the changes that are not durable yet: it is of the moment
    /// before them. The end of a term by time may be unwritten and be forgotten by a restart, but then the
    /// lease counts as renewed for the same holder: the refusal took nothing from another candidate.
    pub(super) fn retry<T>(
        &self,
        key: &LeaseKey,
        if_missing: IfMissing,
        work: impl FnOnce(&mut LeaseTransaction<'_>) -> T,
        refuse: impl FnOnce(&LeaseTransaction<'_>) -> Option<T>,
    ) -> Result<Observation<Option<T>>, Problem> {
        let seen = self.read_durable(key, |transaction| refuse(transaction))?;
        match (seen.value, if_missing) {
            (Some(None), _) | (None, IfMissing::Create) => self.transact(key, if_missing, work),
            (refused, _) => Ok(Observation::settled(refused.flatten(), seen.revision)),
        }
    }

    /// Does what time has made due, and arms the timer for the next time if a request waits for the lease or
    /// a client watches it.
    pub(super) fn tick(&self, key: &LeaseKey) {
        let mut shard = self.table.lock(key);
        if let Some(entry) = shard.get_mut(key) {
            entry.drop_idle_interest();
            let needs_timer = entry.interest.is_some() || self.needs_timer(key);
            if self.check_open().is_ok() && needs_timer {
                if let Some(interest) = &mut entry.interest {
                    interest.armed = None;
                }
                LeaseTransaction::begin(self, key, entry).run_timer();
                entry.drop_idle_interest();
            }
            self.table
                .tidy(&mut shard, key, self.commit_queue.durable());
        }
    }
}

fn check_names(key: &LeaseKey, most: usize) -> Result<(), Problem> {
    let names = [("namespace", key.namespace()), ("lease", key.lease())];
    match names.into_iter().find(|(_, name)| name.len() > most) {
        None => Ok(()),
        Some((what, name)) => Err(Problem::new(
            Code::InvalidName,
            format!(
                "the name of {what} {name} has {} bytes, at most {most} are allowed",
                name.len()
            ),
        )),
    }
}

fn over_limit(key: &LeaseKey, full: Full, limits: &Limits) -> Problem {
    let namespace = key.namespace();
    let detail = match full {
        Full::Leases(count) => {
            let most = limits.max_leases_per_namespace;
            format!("namespace {namespace} has {count} leases, at most {most} are allowed")
        }
        Full::Namespaces(count) => {
            let most = limits.max_namespaces;
            format!(
                "the store has {count} namespaces, at most {most} are allowed, and {namespace} is not one of them"
            )
        }
    };
    Problem::new(Code::OverLimit, detail)
}

//! A lease store in memory. The test kit uses it, and so does the strategy `static`, whose only
//! candidate holds a lease in its own store.
//!
//! Tests can make the store unreachable, and drop its replies.

mod lease;
mod requests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::lease::{Change, Operation, Rejection};
use tenure_core::{ElectionName, Instant, UnixMillis};
use tokio::sync::watch;

use lease::MemoryLease;
pub(crate) use requests::MemoryBackend;

use super::SharedBackend;
use crate::base::clock::Clock;
use crate::config::Config;
use crate::http::store::{LeaseView, TermView};

/// A lease store in memory.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    clock: Clock,
    /// Notifies waiting requests of changes of leases and of the network.
    changes: watch::Sender<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    leases: BTreeMap<ElectionName, MemoryLease>,
    revision: u64,
    is_cut_off: bool,
    pub(crate) replies_to_lose: usize,
    /// The number of requests so far.
    pub(crate) requests: u64,
}

impl MemoryStore {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            changes: watch::Sender::default(),
            state: Mutex::default(),
        })
    }

    /// Returns a candidate's access to this store.
    pub(crate) fn backend(self: &Arc<Self>, config: &Config) -> SharedBackend {
        Arc::new(MemoryBackend {
            store: self.clone(),
            config: config.clone(),
        })
    }

    pub(crate) fn set_reachable(&self, is_reachable: bool) {
        self.lock().is_cut_off = !is_reachable;
        self.changes.send_replace(());
    }

    /// Executes an operation on a lease.
    pub(crate) fn apply(
        &self,
        election: &ElectionName,
        operation: &Operation,
        reason: Option<&str>,
    ) -> Result<Change, Rejection> {
        self.lock().leases.entry(election.clone()).or_default();
        let applied = self.change(election, |lease, now, wall| {
            let applied = lease.apply(operation, reason, now, wall);
            let is_change = applied.as_ref().is_ok_and(|applied| applied.durable);
            (is_change, applied)
        });
        // The lease was created above, and leases are never removed.
        let applied = applied.unwrap_or(Err(Rejection::NotHeld))?;
        Ok(applied.change)
    }

    /// Returns a lease as the store shows it.
    pub(crate) fn lease(&self, election: &ElectionName) -> Option<LeaseView> {
        self.expire(election);
        let (namespace, name) = (&election.namespace, &election.name);
        let state = self.lock();
        let lease = state.leases.get(election)?;
        let record = lease.lease.record();
        let now = self.clock.now();
        let mut view = LeaseView::of(namespace.as_str(), name.as_str(), record, now);
        view.without_store = record.held(now).and_then(|_| lease.without_store());
        view.waiters = lease.lease.waiting() as u64;
        view.revision = lease.revision;
        Some(view)
    }

    /// Returns the terms of a lease, newest first.
    pub(crate) fn history(&self, election: &ElectionName) -> Vec<TermView> {
        self.expire(election);
        let state = self.lock();
        let terms = state.leases.get(election).map(|lease| &lease.terms);
        terms.into_iter().flatten().rev().cloned().collect()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the term if its time is over, and grants the lease to a waiter.
    fn expire(&self, election: &ElectionName) {
        self.change(election, |_, _, _| (false, ()));
    }

    /// Changes a lease. Serves the waiters before and after the change, and notifies watchers of a
    /// change.
    fn change<T>(
        &self,
        election: &ElectionName,
        change: impl FnOnce(&mut MemoryLease, Instant, UnixMillis) -> (bool, T),
    ) -> Option<T> {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let mut state = self.lock();
        let revision = state.revision + 1;
        let lease = state.leases.get_mut(election)?;
        let is_before = lease.serve(now, wall);
        let (is_change, result) = change(lease, now, wall);
        let is_after = lease.serve(now, wall);
        if is_before || is_change || is_after {
            lease.revision = revision;
            state.revision = revision;
            drop(state);
            self.changes.send_replace(());
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_core::lease::candidate::{Answer, Request};
    use tenure_core::lease::{LeaseId, State};

    use super::*;
    use crate::testing::TestStore;

    const LEASE: Duration = Duration::from_secs(15);

    #[tokio::test]
    async fn a_term_that_ran_without_the_store_holds_its_lease_again() {
        let kit = TestStore::start().unwrap();
        let store = kit.store.clone();
        let election: ElectionName = "tests/job".parse().unwrap();
        let config = Config::new(election.clone()).with_candidate("a".parse().unwrap());
        let backend = store.backend(&config);
        let lease_id = LeaseId::from_random_bits(0, 1);
        let send = async |request| backend.send(request, LEASE).await.answer;
        let acquire = Request::Acquire {
            lease_id,
            wait: Duration::ZERO,
            min_epoch: None,
        };
        let Answer::Held(epoch) = send(acquire).await else {
            panic!("the lease is free")
        };
        kit.jump(Duration::from_secs(60)).await;
        assert_eq!(store.lease(&election).unwrap().state, State::Expired);
        let resume = |epoch| Request::Resume {
            lease_id,
            epoch,
            without_store: Duration::from_secs(50),
        };
        assert_eq!(send(resume(epoch)).await, Answer::Held(epoch));
        let lease = store.lease(&election).unwrap();
        assert_eq!(
            (lease.state, lease.epoch),
            (State::Leased, Some(epoch.get()))
        );
        let periods = lease.without_store.unwrap();
        assert_eq!((periods.periods, periods.total_ms), (1, 50_000));
        let history = store.history(&election);
        assert_eq!((history.len(), history[0].end), (1, None));
        assert_eq!(history[0].without_store, Some(periods));

        let release = Request::Release {
            lease_id,
            reason: None,
        };
        assert_eq!(send(release).await, Answer::Released);
        assert_eq!(send(resume(epoch)).await, Answer::IdRetired);
        let next = tenure_core::Epoch::new(epoch.get() - 1).unwrap();
        assert_eq!(send(resume(next)).await, Answer::Superseded);
    }
}

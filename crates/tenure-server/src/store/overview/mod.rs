//! The overview of all leases, for pages that many people look at.
//!
//! A walk over the leases makes a snapshot, which all viewers share for a second. A walk is made
//! only when somebody asks. After a walk the store rests for nineteen times as long as the walk
//! worked, so walks take at most a twentieth of a processor however many viewers there are; then
//! snapshots are older than a second.

mod look;
mod snapshot;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tenure_core::lease::State;
use tenure_core::time::millis;
use tenure_core::wire::{Code, Overview, Problem, WaiterList, WaiterView};
use tenure_core::{Instant, Name};

use self::snapshot::{ElectionStatus, Snapshot};
use super::Store;
use super::observe::{IfMissing, unknown};
use super::transaction::LeaseTransaction;
use crate::clock;
use crate::model::LeaseKey;
use crate::table::Place;

/// The age up to which a snapshot is shown.
const FRESH: Duration = Duration::from_secs(1);

/// The multiple of the time of a walk for which no other walk begins.
const REST: u32 = 19;

/// The maximum number of leases in an overview of all namespaces.
const MOST: usize = 20_000;

/// The maximum number of leases in an overview of one namespace, and in all snapshots together:
/// some 20 MB.
const MOST_OF_NAMESPACE: usize = 100_000;

/// The number of rows that are filtered before other requests have a turn.
const TURN: usize = 1_000;

/// The number of leases that are counted before other requests have a turn: some 50 microseconds.
const COUNTED: usize = 500;

/// The maximum number of waiters in a list of waiters.
const MOST_WAITERS: usize = 1_000;

/// The snapshots.
#[derive(Debug, Default)]
pub(super) struct Overviews {
    snapshots: Mutex<Snapshots>,
    /// Held during a walk.
    walking: tokio::sync::Mutex<()>,
    /// The leases that must always have a holder.
    expected: Arc<OnceLock<BTreeSet<LeaseKey>>>,
}

impl Overviews {
    /// Creates an empty set of snapshots, for a store in which these leases must have a holder.
    pub(super) fn expecting(expected: Arc<OnceLock<BTreeSet<LeaseKey>>>) -> Self {
        Self {
            expected,
            ..Self::default()
        }
    }
}

#[derive(Debug, Default)]
struct Snapshots {
    /// The snapshots with their namespaces, oldest first. `None` stands for all namespaces.
    taken: Vec<(Option<Box<str>>, Arc<Snapshot>)>,
    /// No walk begins before this.
    rest_until: Instant,
}

/// The filters of an overview.
#[derive(Debug)]
pub(crate) struct OverviewFilter {
    /// A part of the name of the lease or of its holder, without capitals.
    pub(crate) text: String,
    pub(crate) namespace: Option<Name>,
    pub(crate) state: Option<State>,
    /// Whether only leases that need a look match.
    pub(crate) needs_look: bool,
    /// The maximum number of rows.
    pub(crate) limit: usize,
}

impl OverviewFilter {
    fn matches(&self, row: &ElectionStatus) -> bool {
        let namespace = self.namespace.as_ref();
        namespace.is_none_or(|namespace| row.namespace() == namespace.as_str())
            && self.state.is_none_or(|state| row.state == state)
            && (!self.needs_look || !row.look.is_empty())
            && row.contains(&self.text)
    }
}

impl Store {
    /// Sets the leases that must always have a holder. An overview shows them even if they do not
    /// exist. Only the first call counts.
    pub(crate) fn expect_leaders(&self, leases: &[LeaseKey]) {
        let expected = leases.iter().cloned().collect();
        let _ = self.inner.overviews.expected.set(expected);
    }

    /// Returns the leases that the caller may read and that match the filter. `prefixes` returns
    /// the beginnings of the names in a namespace that the caller may read.
    pub(crate) async fn overview<'a>(
        &self,
        filter: &OverviewFilter,
        prefixes: impl Fn(&str) -> Vec<&'a str>,
    ) -> Result<Overview, Problem> {
        self.ready()?;
        let mut overview = Overview::default();
        let Some(snapshots) = self.snapshots(filter, &prefixes, &mut overview).await? else {
            overview.too_many = true;
            overview.at = clock::rfc3339(clock::wall());
            // After the look: see `Serving`.
            self.ready()?;
            return Ok(overview);
        };
        // The rows of a namespace follow each other, except for those that need a look.
        let (mut of, mut readable): (&str, Vec<&str>) = ("", Vec::new());
        let rows = snapshots.iter().flat_map(|snapshot| &snapshot.rows);
        let mut matching = Vec::new();
        for (number, row) in (1..).zip(rows) {
            if number % TURN == 0 {
                tokio::task::yield_now().await;
            }
            if row.namespace() != of {
                (of, readable) = (row.namespace(), prefixes(row.namespace()));
            }
            if !readable
                .iter()
                .any(|prefix| row.lease().starts_with(prefix))
            {
                continue;
            }
            overview.leases += 1;
            overview.needs_look += u64::from(!row.look.is_empty());
            overview.states.add(row.state);
            if filter.matches(row) {
                overview.matching += 1;
                // Rows of one snapshot are in order already.
                if matching.len() < filter.limit || snapshots.len() > 1 {
                    matching.push(row);
                }
            }
        }
        if snapshots.len() > 1 {
            matching.sort_by_key(|row| row.order());
        }
        let rows = matching.into_iter().take(filter.limit);
        overview.elections = rows.map(ElectionStatus::view).collect();
        let taken = snapshots.iter().map(|snapshot| snapshot.taken).min();
        let age = taken.map(|taken| self.inner.clock.now().since(taken));
        overview.age_ms = age.map_or(0, millis);
        overview.at = clock::rfc3339(clock::wall());
        // After the look: see `Serving`.
        self.ready()?;
        Ok(overview)
    }

    /// Returns the snapshots that contain the leases of an overview; `None` if there are too many
    /// leases. Then `overview` has the number of leases in the namespaces that the caller may read
    /// completely.
    async fn snapshots<'a>(
        &self,
        filter: &OverviewFilter,
        prefixes: impl Fn(&str) -> Vec<&'a str>,
        overview: &mut Overview,
    ) -> Result<Option<Vec<Arc<Snapshot>>>, Problem> {
        let table = &self.inner.table;
        if table.total() <= MOST {
            return Ok(Some(vec![self.snapshot_of(None).await?]));
        }
        // The store is large, so only the namespaces that the caller may read are walked.
        let namespaces = table.namespaces().into_iter();
        let namespaces = namespaces.filter(|(namespace, _)| match &filter.namespace {
            Some(wanted) => **namespace == *wanted.as_str(),
            None => true,
        });
        let (mut readable, mut leases) = (Vec::new(), 0);
        for (number, (namespace, count)) in (1..).zip(namespaces) {
            if number % TURN == 0 {
                tokio::task::yield_now().await;
            }
            let prefixes = prefixes(&namespace);
            if prefixes == [""] {
                overview.leases += count as u64;
            }
            if !prefixes.is_empty() {
                leases += count;
                readable.push(namespace);
            }
        }
        let most = match &filter.namespace {
            Some(_) => MOST_OF_NAMESPACE,
            None => MOST,
        };
        if leases > most {
            return Ok(None);
        }
        overview.leases = 0;
        let mut snapshots = Vec::new();
        for namespace in readable {
            snapshots.push(self.snapshot_of(Some(namespace)).await?);
        }
        Ok(Some(snapshots))
    }

    /// Returns a snapshot of a namespace (`None`: of all namespaces) that is at most a second old,
    /// or the last one while walks rest.
    pub(super) async fn snapshot_of(
        &self,
        namespace: Option<Box<str>>,
    ) -> Result<Arc<Snapshot>, Problem> {
        let (inner, overviews) = (&self.inner, &self.inner.overviews);
        if let Some(snapshot) = overviews.usable(namespace.as_deref(), inner.clock.now()) {
            return Ok(snapshot);
        }
        let _walking = overviews.walking.lock().await;
        // Another viewer may have made a walk meanwhile.
        if let Some(snapshot) = overviews.usable(namespace.as_deref(), inner.clock.now()) {
            return Ok(snapshot);
        }
        let rest_until = overviews.lock().rest_until;
        tokio::time::sleep(inner.clock.until(rest_until)).await;
        let (walked, of) = (Arc::clone(inner), namespace.clone());
        let walk = tokio::task::spawn_blocking(move || {
            let none = BTreeSet::new();
            let expected = walked.overviews.expected.get().unwrap_or(&none);
            Arc::new(Snapshot::take(&walked, of.as_deref(), expected))
        });
        let snapshot = walk
            .await
            .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
        overviews.add(namespace, Arc::clone(&snapshot), inner.clock.now());
        Ok(snapshot)
    }

    /// Returns the namespaces after this name and the number of leases in each of them, by name.
    pub(crate) fn namespaces(&self, after: &str) -> Vec<(Box<str>, usize)> {
        let mut namespaces = self.inner.table.namespaces();
        namespaces.retain(|(namespace, _)| **namespace > *after);
        namespaces.sort_unstable();
        namespaces
    }

    /// Returns the number of leases in a namespace whose names begin with one of `prefixes`. Other
    /// requests have a turn while it counts.
    pub(crate) async fn count(&self, namespace: &str, prefixes: &[&str]) -> usize {
        let (mut count, mut work) = (0, 0);
        for prefix in prefixes {
            let (prefix, mut place) = (format!("{namespace}/{prefix}"), Some(Place::default()));
            while let Some(at) = place {
                let (keys, next) = self.inner.table.scan(&prefix, at, COUNTED);
                place = next;
                count += keys.len();
                // A look into the shards costs more than a key.
                work += 10 + keys.len();
                if work >= COUNTED {
                    tokio::task::yield_now().await;
                    work = 0;
                }
            }
        }
        count
    }

    /// Returns the first waiters of a lease.
    pub(crate) async fn waiters(&self, key: &LeaseKey) -> Result<WaiterList, Problem> {
        self.ready()?;
        let waiters = |transaction: &mut LeaseTransaction<'_>| {
            let now = transaction.now;
            let waiting = transaction.waiting().waiters().take(MOST_WAITERS);
            let views = (1..).zip(waiting).map(|(position, (priority, waiting))| {
                let holder = waiting.request.holder.as_str();
                let waited = now.since(waiting.since);
                let mut view = WaiterView::new(position, holder, priority);
                view.owner = waiting.owner.as_ref().map(|owner| owner.as_str().into());
                view.waiting_since = clock::rfc3339(clock::before(waited));
                view.waiting_ms = millis(waited);
                view
            });
            WaiterList::new(views.collect())
        };
        let seen = self.execute(key, IfMissing::Refuse, waiters).await?;
        seen.value.ok_or_else(|| unknown(key))
    }
}

impl Overviews {
    /// Returns the snapshot of this namespace, if it is fresh, or if walks rest now.
    fn usable(&self, namespace: Option<&str>, now: Instant) -> Option<Arc<Snapshot>> {
        let state = self.lock();
        let mut taken = state.taken.iter();
        let (_, snapshot) = taken.find(|(of, _)| of.as_deref() == namespace)?;
        let is_fresh = now.since(snapshot.taken) <= FRESH;
        (is_fresh || now < state.rest_until).then(|| Arc::clone(snapshot))
    }

    /// Adds a snapshot, and forgets the oldest ones if there are too many rows.
    fn add(&self, namespace: Option<Box<str>>, snapshot: Arc<Snapshot>, now: Instant) {
        let mut state = self.lock();
        state.rest_until = now + snapshot.cost * REST;
        state.taken.retain(|(of, _)| *of != namespace);
        state.taken.push((namespace, snapshot));
        let rows = |taken: &[(_, Arc<Snapshot>)]| {
            let rows = taken.iter().map(|(_, snapshot)| snapshot.rows.len() + 1);
            rows.sum::<usize>()
        };
        while state.taken.len() > 1 && rows(&state.taken) > MOST_OF_NAMESPACE {
            state.taken.remove(0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Snapshots> {
        self.snapshots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    impl Overviews {
        /// Forgets all snapshots, so that the next viewer makes a walk.
        pub(in crate::store) fn forget(&self) {
            *self.lock() = Snapshots::default();
        }

        /// Lets walks rest for this time from now on.
        pub(in crate::store) fn rest(&self, clock: &Clock, time: Duration) {
            self.lock().rest_until = clock.now() + time;
        }

        /// Returns how long the last walk worked, when it began, and until when walks rest.
        pub(in crate::store) fn last_walk(&self) -> (Duration, Instant, Instant) {
            let state = self.lock();
            let (_, last) = state.taken.last().expect("a walk");
            (last.cost, last.taken, state.rest_until)
        }
    }
}

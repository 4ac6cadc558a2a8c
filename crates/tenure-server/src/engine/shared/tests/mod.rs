//! Servers over a log in memory: take-overs, crashes, faults of the service.

mod crashes;
mod faults;
mod follow;
mod moving;
mod reports;
mod starts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_core::Epoch;
use tenure_core::lease::{LeaseId, Stored};
use tenure_core::ownership::OwnershipRole;

use super::follow::{Ended, Follower, Reign};
use super::head::HeadRecord;
use super::memory::{Content as LogContent, Fault, MemoryConnect, MemoryService};
use super::owner::SharedEngine;
use super::serving::{OwnershipClock, Serving};
use super::status::ClusterStatus;
use super::stop::Stop;
use crate::config::{ClusterAccess, ClusterConfig};
use crate::engine::testing::{alone, batches, delete, end, write};
use crate::engine::{AppendError, Batch, Load, Loaded, Log, Progress};
use crate::model::{ChangeSet, Content, History, HistoryLimits, LeaseKey, TermRecord};

/// The ownership duration of the tests.
const T: Duration = Duration::from_secs(3);

/// The number of terms of a lease that the store remembers.
const MOST: usize = 20;

const HISTORY: HistoryLimits = HistoryLimits {
    of_lease: MOST,
    in_all: usize::MAX,
};

/// A server over a log in memory, with a clock of its own.
struct Server {
    follower: Follower,
    connect: MemoryConnect,
    clock: Arc<AtomicU64>,
    stop: Arc<Stop>,
}

impl Server {
    fn new(name: &str, service: &Arc<MemoryService>) -> Self {
        let clock = Arc::new(AtomicU64::new(1_000_000_000));
        let manual = OwnershipClock::Manual(Arc::clone(&clock));
        Self::with_clock(name, service, T, clock, manual)
    }

    /// A server whose clients need credentials or not.
    fn with_access(name: &str, service: &Arc<MemoryService>, access: ClusterAccess) -> Self {
        let clock = Arc::new(AtomicU64::new(1_000_000_000));
        let manual = OwnershipClock::Manual(Arc::clone(&clock));
        let config = ClusterConfig {
            access,
            ..config(name, T)
        };
        Self::with_config(&config, service, clock, manual)
    }

    fn with_clock(
        name: &str,
        service: &Arc<MemoryService>,
        ownership: Duration,
        clock: Arc<AtomicU64>,
        used: OwnershipClock,
    ) -> Self {
        Self::with_config(&config(name, ownership), service, clock, used)
    }

    fn with_config(
        config: &ClusterConfig,
        service: &Arc<MemoryService>,
        clock: Arc<AtomicU64>,
        used: OwnershipClock,
    ) -> Self {
        let (connect, stop) = (service.connect(), Arc::<Stop>::default());
        let to = Arc::new(connect.clone());
        let follower = Follower::with_clock(to, config, HISTORY, Arc::clone(&stop), used);
        Self {
            follower: follower.unwrap(),
            connect,
            clock,
            stop,
        }
    }

    /// Follows until the server owns the log.
    fn own(&mut self) -> Owner {
        let reign = self.follower.run_until_owner().unwrap();
        self.owner(reign)
    }

    fn owner(&self, reign: Reign) -> Owner {
        Owner {
            revision: reign.loaded.revision,
            generation: reign.generation,
            loaded: reign.loaded,
            engine: reign.engine,
        }
    }

    fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap();
        self.clock.fetch_add(nanos, Ordering::SeqCst);
    }

    fn serving(&self) -> Arc<Serving> {
        self.follower.serving()
    }

    fn status(&self) -> Arc<ClusterStatus> {
        self.follower.status()
    }

    fn role(&self) -> OwnershipRole {
        self.status().view().role
    }
}

/// A server that owns the log.
struct Owner {
    generation: u64,
    loaded: Loaded,
    engine: SharedEngine,
    /// The revision of the last change.
    revision: u64,
}

impl Owner {
    fn commit(&mut self, sets: &[ChangeSet]) -> Result<(), AppendError> {
        let mut batch = Batch::default();
        batch.encode(self.revision, sets);
        self.engine.append(&batch, sets)?;
        self.revision = batch.revision;
        Ok(())
    }

    /// Commits the next change of a lease that did not exist.
    fn write(&mut self) -> Result<(), AppendError> {
        let revision = self.revision + 1;
        let mut change = write(revision, 10);
        change.key = LeaseKey::of_text(&format!("ns/job-{revision}"));
        self.commit(&[alone(change)])
    }

    fn rest(&mut self) {
        while self.engine.checkpoint(Load::Idle).unwrap() == Progress::More {}
    }
}

fn config(name: &str, ownership: Duration) -> ClusterConfig {
    ClusterConfig {
        ownership,
        ..ClusterConfig::in_memory(name)
    }
}

/// The leases that the committed changes make.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    leases: BTreeMap<LeaseKey, (Stored, u64)>,
    floor: Option<Epoch>,
    terms: BTreeMap<LeaseKey, Vec<TermRecord>>,
    /// The retired ids of the last deletion of each name.
    deleted: BTreeMap<LeaseKey, Vec<LeaseId>>,
}

impl Model {
    fn apply(&mut self, sets: &[ChangeSet]) {
        for change in sets.iter().flat_map(|set| &set.changes) {
            let key = change.key.clone();
            match &change.content {
                Content::Lease(stored) => {
                    let lease = (stored.as_ref().clone(), change.revision);
                    self.leases.insert(key.clone(), lease);
                }
                Content::Deleted(deleted) => {
                    self.floor = self.floor.max(deleted.last);
                    self.leases.remove(&key);
                    self.terms.remove(&key);
                    // A deletion has the ids of the deletions before, so one without ids says that
                    // there are none any more.
                    match deleted.retired.is_empty() {
                        true => self.deleted.remove(&key),
                        false => self.deleted.insert(key.clone(), deleted.retired.clone()),
                    };
                }
            }
            if let Some(term) = &change.term {
                let terms = self.terms.entry(key).or_default();
                (**term).clone().add_to(terms);
            }
        }
    }

    /// Checks the content that a server loaded.
    fn check(&self, loaded: &Loaded, of: &str) {
        let leases = loaded.leases.iter().cloned();
        let leases = leases.map(|(key, stored, revision)| (key, (stored, revision)));
        let leases: BTreeMap<_, _> = leases.collect();
        assert_eq!(leases, self.leases, "{of}");
        assert_eq!(loaded.floors.greatest(), self.floor, "{of}");
        let deleted: BTreeMap<_, _> = loaded.deleted.iter().cloned().collect();
        for (key, retired) in &self.deleted {
            // A lease that exists again has the ids itself.
            if !self.leases.contains_key(key) {
                assert_eq!(deleted.get(key), Some(retired), "{of}: {key:?}");
            }
        }
        self.check_terms(&loaded.history, of);
    }

    fn check_terms(&self, history: &History, of: &str) {
        for key in self.leases.keys() {
            let all = self.terms.get(key).cloned().unwrap_or_default();
            let expected: Vec<_> = all.into_iter().rev().take(MOST).collect();
            let found: Vec<_> = history.terms(key).take(MOST).cloned().collect();
            assert_eq!(found, expected, "{of}: {key:?}");
        }
    }
}

fn head_of(content: &LogContent) -> HeadRecord {
    HeadRecord::decode(content.head.as_ref().expect("a head")).unwrap()
}

/// Checks that the heads of the log are one chain.
fn check_chain(content: &LogContent) {
    let heads = content.heads.iter();
    let heads: Vec<_> = heads
        .map(|head| HeadRecord::decode(head).unwrap())
        .collect();
    for pair in heads.windows(2) {
        let [before, after] = [&pair[0], &pair[1]];
        assert_eq!(after.head.sequence, before.head.sequence + 1);
        assert!(after.content.revision >= before.content.revision);
        assert!(after.content.placed >= before.content.placed);
        assert!(after.content.kept <= after.content.placed + 1);
        assert!(after.content.floors.greatest() >= before.content.floors.greatest());
        assert_eq!(after.content.store, before.content.store);
        match after.head.owner == before.head.owner {
            true => assert!(after.head.generation >= before.head.generation),
            false => assert_eq!(after.head.generation, before.head.generation + 1),
        }
    }
}

//! Servers over a log in memory: take-overs, crashes, faults of the home.

mod bases;
mod crashes;
mod damage;
mod faults;
pub(crate) mod faulty_home;
mod follow;
mod operator;
mod reports;
mod starts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::FutureExt as _;
use tenure_core::Epoch;
use tenure_core::lease::{LeaseId, Stored};
use tenure_core::ownership::{OwnershipRole, TailState};
use tenure_register::{Expected, Failure, Read, Register as _, RegisterKey};
use tokio_util::sync::CancellationToken;

use self::faulty_home::{Fault, FaultyHome};
use super::owner::OwnedLog;
use super::serving::OwnershipClock;
use super::standby::{Ended, Standby, TakenOver};
use super::status::ClusterStatus;
use super::{LogHome, OperatorLog, RecoverError};
use crate::config::{ClusterAccess, ClusterConfig};
use crate::engine::entry::Entry;
use crate::engine::ring::SlotValue;
use crate::engine::tests::log_lines::LogLines;
use crate::engine::tests::{alone, batches, delete, write};
use crate::engine::{AppendError, Batch, Loaded, Log, Restored};
use crate::model::{ChangeSet, Content, History, HistoryLimits, LeaseKey, StoreId, TermRecord};

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
    standby: Standby,
    reached: FaultyHome,
    home: LogHome,
    clock: Arc<AtomicU64>,
    stop: CancellationToken,
}

impl Server {
    fn new(name: &str, home: &FaultyHome) -> Self {
        Self::with_config(&config(name, T), home)
    }

    /// A server whose clients need credentials or not.
    fn with_access(name: &str, home: &FaultyHome, access: ClusterAccess) -> Self {
        let config = ClusterConfig {
            access,
            ..config(name, T)
        };
        Self::with_config(&config, home)
    }

    fn with_config(config: &ClusterConfig, home: &FaultyHome) -> Self {
        let clock = Arc::new(AtomicU64::new(1_000_000_000));
        let manual = OwnershipClock::Manual(Arc::clone(&clock));
        Self::with_clock(config, home, clock, manual)
    }

    /// A server with the clock of the machine.
    fn in_real_time(name: &str, home: &FaultyHome, ownership: Duration) -> Self {
        let config = config(name, ownership);
        Self::with_clock(&config, home, Arc::default(), OwnershipClock::System)
    }

    fn with_clock(
        config: &ClusterConfig,
        home: &FaultyHome,
        clock: Arc<AtomicU64>,
        used: OwnershipClock,
    ) -> Self {
        let (reached, stop) = (home.for_another(), CancellationToken::new());
        let home = reached.open(config);
        let standby = Standby::new(home.clone(), config, HISTORY, stop.clone(), used);
        Self {
            standby: standby.unwrap(),
            reached,
            home,
            clock,
            stop,
        }
    }

    /// Follows until the server owns the log.
    fn own(&mut self) -> Owner {
        let taken_over = self.standby.run_until_owner().unwrap();
        Owner::new(taken_over)
    }

    /// Does what is due now.
    fn step(&mut self) -> Result<Option<TakenOver>, Ended> {
        self.home.clone().block_on(self.standby.step())
    }

    /// Looks every T/12 for this long. Returns the ownership, if one begins.
    fn follow(&mut self, duration: Duration) -> Option<Owner> {
        for _ in 0..duration.as_nanos() / (T / 12).as_nanos() {
            if let Some(taken_over) = self.step().unwrap() {
                return Some(Owner::new(taken_over));
            }
            self.advance(T / 12);
        }
        None
    }

    /// Begins to follow again, after an ownership.
    fn stand_by(&mut self) {
        self.home.clone().block_on(self.standby.begin()).unwrap();
    }

    /// The reason why this server takes nothing over.
    fn refusal(&self) -> String {
        self.status().view().refusal.unwrap_or_default()
    }

    fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap();
        self.clock.fetch_add(nanos, Ordering::SeqCst);
    }

    fn status(&self) -> Arc<ClusterStatus> {
        self.standby.status()
    }

    fn role(&self) -> OwnershipRole {
        self.status().view().role
    }
}

/// A server that owns the log.
struct Owner {
    generation: u64,
    loaded: Loaded,
    log: OwnedLog,
    /// The revision of the last change.
    revision: u64,
}

impl Owner {
    fn new(mut taken_over: TakenOver) -> Self {
        taken_over.log.start_writer().unwrap();
        Self {
            revision: taken_over.loaded.revision,
            generation: taken_over.log.log.status.view().generation,
            loaded: taken_over.loaded,
            log: taken_over.log,
        }
    }

    fn commit(&mut self, sets: &[ChangeSet]) -> Result<(), AppendError> {
        let mut batch = Batch::default();
        batch.encode(self.revision, sets);
        self.log.append(&batch, sets)?;
        self.revision = batch.revision;
        self.log.upkeep()
    }

    /// Commits the next change of a lease that did not exist.
    fn write(&mut self) -> Result<(), AppendError> {
        let revision = self.revision + 1;
        let mut change = write(revision, 10);
        change.key = LeaseKey::of_text(&format!("ns/job-{revision}"));
        self.commit(&[alone(change)])
    }
}

fn init(home: &LogHome, wait: &dyn Fn(Duration)) -> Result<StoreId, RecoverError> {
    OperatorLog::new(home, wait).init()
}

fn recover(home: &LogHome, wait: &dyn Fn(Duration)) -> Result<Restored, RecoverError> {
    OperatorLog::new(home, wait).recover()
}

fn config(name: &str, ownership: Duration) -> ClusterConfig {
    ClusterConfig {
        ownership,
        ..ClusterConfig::in_memory(name)
    }
}

/// Returns the answer of a home in memory, which does not wait.
fn now<T>(answer: impl Future<Output = Result<T, Failure>>) -> T {
    answer.now_or_never().expect("an answer").unwrap()
}

fn key(text: &str) -> RegisterKey {
    format!("{}/{text}", ClusterConfig::NAME).parse().unwrap()
}

fn slot_key(slot: u64) -> RegisterKey {
    key(&format!("slot-{slot}"))
}

fn files_of(home: &FaultyHome) -> Vec<RegisterKey> {
    now(home.memory.list(&key("file")))
}

/// Writes these bytes over a slot, as another program does.
fn overwrite(home: &FaultyHome, slot: u64, bytes: impl Into<Bytes>) {
    let (slot, bytes) = (slot_key(slot), bytes.into());
    let read = now(home.memory.read(&slot, None));
    let expected = Expected {
        identity: read.identity().clone(),
        version: match read {
            Read::Found { version, .. } => Some(version),
            _ => None,
        },
    };
    now(home.memory.replace(&slot, &expected, bytes));
}

/// Returns the entries in all slots, in their order.
fn entries_of(home: &FaultyHome) -> Vec<SlotValue> {
    let read = |slot| match now(home.memory.read(&slot_key(slot), None)) {
        Read::Found { value, .. } => Some(SlotValue::decode(&value).unwrap()),
        _ => None,
    };
    let mut entries: Vec<_> = (0..256).filter_map(read).collect();
    entries.sort_by_key(|it| it.tail.sequence);
    entries
}

/// Returns the newest entry of the log.
fn tail_of(home: &FaultyHome) -> SlotValue {
    entries_of(home).pop().expect("an entry")
}

/// Changes the newest entry in its place, as another version or another command would write it.
fn change_tail(home: &FaultyHome, change: impl FnOnce(&mut SlotValue)) {
    let mut value = tail_of(home);
    let slot = value.tail.sequence % 256;
    change(&mut value);
    overwrite(home, slot, value.encode());
}

/// Checks that the entries in the ring are one chain.
fn check_chain(home: &FaultyHome) {
    let entries = entries_of(home);
    for pair in entries.windows(2) {
        let [before, after] = [&pair[0], &pair[1]];
        assert_eq!(after.tail.sequence, before.tail.sequence + 1);
        let follows = Entry::decode(&after.entry).unwrap().follows;
        assert_eq!(follows, before.position.checksum);
        assert!(after.revision >= before.revision);
        let covered = |it: &SlotValue| it.base.map_or(0, |it| it.covered);
        assert!(covered(after) >= covered(before) && covered(after) < after.tail.sequence);
        assert_eq!(after.about.store, before.about.store);
        match after.tail.owner == before.tail.owner {
            true => assert!(after.tail.generation >= before.tail.generation),
            false => assert_eq!(after.tail.generation, before.tail.generation + 1),
        }
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
                match terms.last_mut() {
                    Some(last) if last.epoch == term.epoch => {
                        *last = (**term).clone().replacing(last.clone());
                    }
                    Some(last) if last.epoch > term.epoch => {}
                    _ => terms.push((**term).clone()),
                }
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

//! The store: the operations on leases, independent of the protocol of a request.
//!
//! Every call has two steps. First, under the lock of one shard, it reads or changes a lease and
//! queues the change for a commit. It never waits there. Then, without a lock, it waits until the
//! state that it saw is durable, and answers. This holds for grants, refusals, reads, lists and
//! long polls alike.
//!
//! A full disk may have undone that state meanwhile. If none of the request's own changes was
//! undone, the request runs again, first on a copy of the durable state. A read or a refusal there
//! is the answer; otherwise the request runs on the lease itself.

mod foreign;
mod history;
mod operate;
mod overview;
mod poll;
mod wait;
mod watch;

mod answers;
mod exposed;
mod member;
mod observe;
mod served;
mod transaction;

mod commit_thread;
mod sinks;
mod table_loader;
mod threads;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use axum::http::HeaderValue;
use tenure_core::lease::Record;
use tenure_core::time::millis;
use tenure_core::wire::{Code, Problem};
use tenure_core::{Epoch, Instant};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::audit::Audit;
use crate::clock::{self, Clock};
use crate::commit_queue::{CommitQueue, Durability};
use crate::config::{Limits, StoreConfig};
use crate::engine::{self, Document, Engine, Loaded, OpenError};
use crate::events::Events;
use crate::metrics::StoreMetrics;
use crate::model::{Floors, LeaseKey, StoreId};
use crate::random::OsRandom;
use crate::shares::{Shares, Tenant};
use crate::table;
use crate::timer::Timer;

use answers::Answers;
use history::PastTerms;
use overview::Overviews;
use table_loader::{LoadedTable, TableLoader, table_of};
use threads::Threads;
use wait::OutcomeSender;

pub use answers::LargeAnswer;
pub use foreign::{AccessEffect, LeaseSnapshot};
pub(crate) use member::{Member, Order};
pub(crate) use overview::OverviewFilter;
pub(crate) use served::ServedStore;
pub(crate) use watch::WatchItem;

/// A lease store. Clones are handles to the same store; dropping the last one closes it.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
    threads: Arc<Threads>,
}

/// The parts of a store that do not come from its engine.
#[derive(Clone, Debug)]
pub(crate) struct StoreSetup {
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) limits: Limits,
    pub(crate) member: Option<Member>,
    pub(crate) lasting: Lasting,
}

/// The parts that all stores of a server share, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lasting {
    /// The log in which the grants and ends of terms are recorded.
    audit: Arc<OnceLock<Audit>>,
    metrics: Arc<StoreMetrics>,
    /// The leases that must always have a holder.
    expected: Arc<OnceLock<BTreeSet<LeaseKey>>>,
    /// A restore or a recovery of the log that is not in the audit log yet.
    pub(crate) restored: Arc<Mutex<Option<String>>>,
}

impl StoreSetup {
    /// Creates the setup of a store with these limits, which is not in a cluster.
    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self {
            data_dir: None,
            limits,
            member: None,
            lasting: Lasting::default(),
        }
    }
}

type Entry = table::Entry<OutcomeSender>;
type Table = table::Table<OutcomeSender>;

#[derive(Debug)]
struct Inner {
    table: Table,
    commit_queue: CommitQueue,
    events: Arc<Events>,
    /// The log in which the grants and ends of terms are recorded.
    audit: Arc<OnceLock<Audit>>,
    timer: Arc<Timer>,
    clock: Clock,
    /// The id of the store; `None` for a standby that has not read it.
    id: Option<StoreId>,
    /// The part of a server of a cluster.
    member: Option<Member>,
    /// A restore or a recovery of the log that is not in the audit log yet.
    restored: Arc<Mutex<Option<String>>>,
    /// The time at which the leases of the data directory counted as renewed.
    opened_at: Instant,
    limits: Limits,
    /// The past terms of all leases.
    history: Arc<PastTerms>,
    /// The documents that the store had at its start, until the protocol that they belong to takes
    /// them.
    documents: Mutex<Vec<Document>>,
    /// The epochs that new leases may not get.
    floors: Mutex<Floors>,
    metrics: Arc<StoreMetrics>,
    /// The data directory; `None` for a store in memory.
    data_dir: Option<PathBuf>,
    /// The acquires and long polls that wait.
    waiting: Shares<Tenant>,
    /// The number of long polls among them.
    long_polls: AtomicUsize,
    /// The number of acquires that have waited since the start, from which the next one gets its
    /// number.
    waited: AtomicU64,
    overviews: Overviews,
    /// The watchers.
    watching: Shares<Tenant>,
    answers: Answers,
    /// Limits the number of requests that resume at once after a change for which many waited.
    turns: Semaphore,
    /// The reason why the table may no longer be used; the first reason stays. It is set only while
    /// all shards are locked, so it does not change while a shard is locked.
    ended: OnceLock<Problem>,
    /// Notified when no request may wait for now, because the server can't append to its log.
    interruption: Notify,
    /// Cancelled when no request may wait any more.
    stopping: CancellationToken,
    /// Cancelled when the engine has failed for good, or a thread of the store has panicked.
    failed: CancellationToken,
}

impl Store {
    /// Opens the store with this configuration. Leases that were held when the store was closed, or
    /// when its process was killed, count as renewed now, for their full durations. The call blocks
    /// while it reads and checks the data directory.
    ///
    /// # Errors
    ///
    /// [`OpenError`] names the file and the remedy. Damaged files are not changed.
    #[allow(clippy::needless_pass_by_value)] // A store takes its configuration over.
    pub fn open(config: StoreConfig) -> Result<Self, OpenError> {
        config.limits.check()?;
        clock::check()?;
        let StoreConfig { data_dir, limits } = config;
        let mut loader = TableLoader::start().map_err(OpenError::io("a thread"))?;
        let opened = engine::open(data_dir.as_deref(), limits.of_history(), &mut loader);
        let ((loaded, engine), leases) = (opened?, loader.finish());
        warn_of_a_late_clock(leases.last_epoch.max(loaded.floors.greatest()));
        let setup = StoreSetup {
            data_dir,
            ..StoreSetup::with_limits(limits)
        };
        Self::start_with(loaded, leases, engine, setup).map_err(OpenError::io("a thread"))
    }

    /// Creates a store with these leases. Without an engine the store is in memory.
    pub(crate) fn start(
        mut loaded: Loaded,
        engine: Option<Engine>,
        setup: StoreSetup,
    ) -> io::Result<Self> {
        let leases = table_of(std::mem::take(&mut loaded.leases));
        Self::start_with(loaded, leases, engine, setup)
    }

    fn start_with(
        mut loaded: Loaded,
        leases: LoadedTable,
        engine: Option<Engine>,
        setup: StoreSetup,
    ) -> io::Result<Self> {
        let StoreSetup {
            data_dir,
            limits,
            member,
            lasting,
        } = setup;
        let events = Arc::new(Events::after(loaded.revision));
        loaded.history.limit(limits.of_history());
        let history = Arc::new(PastTerms::new(std::mem::take(&mut loaded.history)));
        let sinks = sinks::all(&events, &lasting, &history);
        let Lasting {
            audit,
            metrics,
            expected,
            restored,
        } = lasting;
        // The table exists, so its leases have their full durations from now on.
        let (clock, now) = (Clock::start(), Instant::default());
        let durability = match engine {
            Some(_) => Durability::OnDisk,
            None => Durability::InMemory,
        };
        let id = match (loaded.store_id, &member) {
            (Some(id), _) => Some(id),
            (None, Some(_)) => None,
            (None, None) => Some(StoreId::random(&mut OsRandom)),
        };
        let deleted = std::mem::take(&mut loaded.deleted);
        let (floors, table) = (loaded.floors, leases.table);
        // The floors of a restored backup cover grants that this store does not have, so existing
        // leases must get epochs above them too.
        if floors.have_restored() {
            table.change_all(|key, entry| {
                let floor = floors.of_existing(key.namespace());
                entry.lease.number_above(floor);
            });
        }
        let [waiting, watching] = [limits.max_waiting, limits.max_watchers].map(Shares::new);
        let answers = Answers::new(limits.max_answers);
        let inner = Arc::new(Inner {
            commit_queue: CommitQueue::new(loaded.revision, durability, sinks),
            events,
            audit,
            documents: Mutex::new(loaded.documents.into_values().collect()),
            floors: Mutex::new(floors),
            table,
            timer: Arc::new(leases.timer),
            clock,
            id,
            member,
            restored,
            opened_at: now,
            limits,
            history,
            metrics,
            data_dir,
            waiting,
            long_polls: AtomicUsize::new(0),
            waited: AtomicU64::new(0),
            overviews: Overviews::expecting(expected),
            watching,
            answers,
            turns: Semaphore::new(half_of_the_processors()),
            ended: OnceLock::new(),
            interruption: Notify::new(),
            stopping: CancellationToken::new(),
            failed: CancellationToken::new(),
        });
        for (key, retired) in deleted {
            inner
                .table
                .remember(&key, Record::restore_deleted(retired, now));
        }
        if !inner.limits.forget_leases_after.is_zero() {
            inner.table.change_all(|key, entry| {
                if let Some(at) = inner.next_due(entry, now) {
                    inner.timer.arm(&mut entry.armed, key.hash(), at, now);
                }
            });
        }
        if inner.confirms() {
            inner.commit_queue.expect_all_confirmed();
        }
        let threads = Arc::new(Threads::start(&inner, engine)?);
        Ok(Self { inner, threads })
    }

    /// Creates the store of a standby: it has no leases, and refuses every request because another
    /// server is active.
    pub(crate) fn standby(setup: StoreSetup) -> io::Result<Self> {
        let store = Self::start(Loaded::default(), None, setup)?;
        let reason = store.inner.not_active();
        let _ = store.inner.ended.set(reason);
        Ok(store)
    }

    /// Answers all waiting requests. From now on the store accepts only renewals and releases.
    pub(crate) fn stop(&self) {
        self.inner.stopping.cancel();
    }

    /// Records the grants and ends of terms in this log from now on, if its level includes them.
    /// Only the first log is used.
    pub(crate) fn record_changes(&self, audit: &Audit) {
        let _ = self.inner.audit.set(audit.clone());
    }

    /// Returns the token that is cancelled when the store stops.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.inner.stopping
    }

    /// Commits queued changes and closes the engine. The call blocks.
    pub(crate) fn close(&self) {
        self.threads.close();
    }

    /// Returns the id of the store: 32 hexadecimal digits, which its backups keep. It is empty for a
    /// standby that has not read it.
    #[must_use]
    pub fn id(&self) -> &str {
        self.inner.id.as_ref().map_or("", StoreId::as_str)
    }

    /// Returns the id for a header of an answer. A standby has the id of the log that it has read.
    pub(crate) fn id_header(&self) -> Option<HeaderValue> {
        let inner = &self.inner;
        let id = match (&inner.id, &inner.member) {
            (Some(id), _) => HeaderValue::from_str(id.as_str()),
            (None, member) => HeaderValue::from_str(&member.as_ref()?.status.view().store?),
        };
        // Hexadecimal digits are a valid header value.
        id.ok()
    }

    /// Returns the ownership duration of a server of a cluster, for a header of an answer.
    pub(crate) fn ownership_header(&self) -> Option<HeaderValue> {
        let member = self.inner.member.as_ref()?;
        Some(millis(member.config.ownership).into())
    }

    /// Returns the limits that the store was opened with.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Returns the token that is cancelled when the engine has failed for good, or a thread of the
    /// store has panicked.
    pub(crate) fn failed(&self) -> &CancellationToken {
        &self.inner.failed
    }

    /// Ends the store for good.
    pub(crate) fn fail(&self) {
        self.inner.fail();
    }

    /// Checks that the store accepts requests.
    ///
    /// # Errors
    ///
    /// [`Code::Stopping`] or [`Code::HomeUnavailable`].
    pub(crate) fn ready(&self) -> Result<(), Problem> {
        self.inner.check_open()?;
        self.inner.check_serving()?;
        if self.inner.stopping.is_cancelled() {
            return Err(stopping());
        }
        Ok(())
    }
}

impl Inner {
    fn check_open(&self) -> Result<(), Problem> {
        match self.ended.get() {
            None => Ok(()),
            // Another server may have become active since.
            Some(reason) if reason.code == Code::NotActive => Err(self.not_active()),
            Some(reason) => Err(reason.clone()),
        }
    }

    /// Waits for a turn to resume after a change that many requests may have waited for. If a
    /// thousand requests resumed at once, all of them would be in the runtime's queue before a
    /// renewal that arrives now. So only a few resume at a time, and renewals run in between.
    async fn turn(&self) {
        // The semaphore is never closed.
        drop(self.turns.acquire().await);
    }

    /// Returns the epochs that new leases may not get.
    fn floors(&self) -> MutexGuard<'_, Floors> {
        self.floors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of requests that resume at once: half of the processors. The other half is
/// for renewals.
fn half_of_the_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().div_ceil(2))
}

fn stopping() -> Problem {
    Problem::new(Code::Stopping, "the store is stopping")
}

fn failed() -> Problem {
    Problem::new(Code::HomeUnavailable, "the store failed and is ending")
}

/// Warns if the clock is behind the last epoch. Epochs increase even if the clock is set back, but
/// only while the data directory is not lost.
fn warn_of_a_late_clock(last: Option<Epoch>) {
    let wall = clock::wall();
    if let Some(last) = last
        && wall.get() < last.get()
    {
        warn!(
            epoch = last.get(),
            wall_clock_ms = wall.get(),
            "the wall clock is behind the last epoch: it was set back, a backup was restored within \
             the last 32 days, or a request named this epoch; epochs continue from the last one"
        );
    }
}

#[cfg(test)]
mod tests;

//! The store: what requests do, apart from how they come in.
//!
//! Every call works in two halves. Under the lock of one shard it looks, changes and takes a place
//! in the journal, without ever waiting. Then, without a lock, it waits until what it saw is
//! durable, and only then answers: grants, refusals, reads, lists and long polls alike. What was
//! seen may have been undone meanwhile because the disk was full. Then a read is answered by what is
//! durable, and so is a request that the lease's durable state refuses; another change is tried again if
//! nothing of its own was undone.

mod event;
mod foreign;
mod history;
mod keep;
mod operate;
mod poll;
mod wait;
mod watch;
mod work;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use tenure_core::Epoch;
use tenure_core::lease::Record;
use tenure_core::wire::{Code, Problem};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::clock::{self, Clock};
use crate::config::{Config, Limits};
use crate::engine::{self, Archive, Engine, Loaded, OpenError};
use crate::events::Events;
use crate::journal::{Journal, Keeping};
use crate::scans::Scans;
use crate::table::Table;
use crate::timer::Timer;

pub(crate) use event::Event;
pub use foreign::{AccessEffect, LeaseSnapshot};
pub(crate) use watch::{Heard, Watcher};

/// A lease store. Clones are handles to the same one; when the last is dropped it is closed.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
    running: Arc<Running>,
}

#[derive(Debug)]
struct Inner {
    table: Table,
    journal: Journal,
    events: Arc<Events>,
    timer: Timer,
    scans: Scans,
    clock: Clock,
    limits: Limits,
    /// The terms on disk; without an engine each lease in the table has its own.
    archive: Option<Arc<dyn Archive>>,
    /// One more than the epoch that leases which are made are numbered above; zero if there is none.
    floor: AtomicU64,
    /// How many acquires and long polls wait.
    waiting: AtomicUsize,
    /// How many acquires have waited since the start: the number of the next one.
    waited: AtomicU64,
    /// How many watch.
    watching: AtomicUsize,
    /// Turns of those who are to be told of a change that many wait for.
    turns: Semaphore,
    /// Nothing while the table may be used. It is set only while all shards are locked, so what it says
    /// holds for as long as one is.
    status: OnceLock<Status>,
    /// Nobody may wait any more.
    stopping: CancellationToken,
    /// The engine failed for good, or a thread of the store panicked.
    failed: CancellationToken,
}

/// Why the table may not be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Closed,
    Failed,
}

/// The store's threads.
#[derive(Debug)]
struct Running {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Store {
    /// Opens the store that `config` names. Leases that were held when it was closed, or when its
    /// process was killed, count as renewed now, for their full durations.
    ///
    /// It blocks while it reads and checks what is on disk.
    ///
    /// # Errors
    ///
    /// [`OpenError`] names the file and says what to do. Files that are damaged are left untouched.
    #[allow(clippy::needless_pass_by_value)] // A store takes its configuration over.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        config.limits.check()?;
        clock::check()?;
        let (loaded, engine) = engine::open(&config.engine, config.limits.max_history)?;
        warn_of_a_late_clock(loaded.last_epoch());
        Self::start(loaded, engine, config.limits).map_err(OpenError::io("a thread"))
    }

    /// A store of these leases, that keeps changes in `engine`; in memory only, if there is none.
    fn start(
        mut loaded: Loaded,
        engine: Option<Box<dyn Engine>>,
        limits: Limits,
    ) -> io::Result<Self> {
        let clock = Clock::start();
        let keeping = match engine {
            Some(_) => Keeping::Durably,
            None => Keeping::InMemory,
        };
        let events = Arc::new(Events::after(loaded.revision));
        let deleted = std::mem::take(&mut loaded.deleted);
        let inner = Arc::new(Inner {
            journal: Journal::new(loaded.revision, keeping, Arc::clone(&events)),
            events,
            floor: AtomicU64::new(loaded.floor.map_or(0, |floor| floor.get() + 1)),
            table: Table::new(loaded.entries(clock.now())),
            timer: Timer::default(),
            scans: Scans::default(),
            clock,
            limits,
            archive: engine.as_ref().map(|engine| engine.archive()),
            waiting: AtomicUsize::new(0),
            waited: AtomicU64::new(0),
            watching: AtomicUsize::new(0),
            turns: Semaphore::new(turns()),
            status: OnceLock::new(),
            stopping: CancellationToken::new(),
            failed: CancellationToken::new(),
        });
        let now = inner.clock.now();
        for (key, retired) in deleted {
            inner
                .table
                .remember(&key, Record::restore_deleted(retired, now));
        }
        let running = Running {
            inner: Arc::clone(&inner),
            threads: Mutex::default(),
        };
        running.start(engine)?;
        Ok(Self {
            inner,
            running: Arc::new(running),
        })
    }

    /// Answers everybody who waits, and takes nothing new but renewals and releases.
    pub(crate) fn stop(&self) {
        self.inner.stopping.cancel();
    }

    /// Says when it stops.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.inner.stopping.clone()
    }

    /// Commits what is queued and closes the engine. Blocks.
    pub(crate) fn close(&self) {
        self.running.close();
    }

    /// The limits that the store was opened with.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Done when the engine has failed for good, or a thread of the store has panicked.
    pub(crate) async fn failed(&self) {
        self.inner.failed.cancelled().await;
    }

    /// Whether the engine has failed for good, or a thread of the store has panicked.
    pub(crate) fn has_failed(&self) -> bool {
        self.inner.failed.is_cancelled()
    }

    /// Whether requests are taken.
    ///
    /// # Errors
    ///
    /// [`Code::Stopping`] or [`Code::EngineUnavailable`].
    pub(crate) fn ready(&self) -> Result<(), Problem> {
        self.inner.check_open()?;
        if self.inner.stopping.is_cancelled() {
            return Err(stopping());
        }
        Ok(())
    }
}

impl Inner {
    fn check_open(&self) -> Result<(), Problem> {
        match self.status.get() {
            None => Ok(()),
            Some(Status::Closed) => Err(stopping()),
            Some(Status::Failed) => Err(failed()),
        }
    }

    /// Waits for a turn to go on after a change that many may have waited for. A thousand who are told
    /// at once would all be in the runtime's queue before a renewal that comes now. So they go on one
    /// after the other: who has the turn passes it on when it goes on, and renewals come in between.
    async fn turn(&self) {
        // It is never closed.
        drop(self.turns.acquire().await);
    }

    fn set_status(&self, status: Status) {
        // The first one stays: failed is for ever.
        let _ = self.status.set(status);
    }

    /// No epoch up to this one may be granted to a lease that is made.
    fn floor(&self) -> Option<Epoch> {
        let above = self.floor.load(Ordering::Relaxed);
        above.checked_sub(1).and_then(Epoch::new)
    }
}

impl Running {
    fn start(&self, engine: Option<Box<dyn Engine>>) -> io::Result<()> {
        let spawn = |name: &'static str, run: Box<dyn FnOnce() + Send>| {
            let inner = Arc::clone(&self.inner);
            let thread = std::thread::Builder::new().name(name.into());
            let thread = thread.spawn(move || {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                    inner.end_without(name, &*panic);
                }
            })?;
            self.lock().push(thread);
            io::Result::Ok(())
        };
        let inner = Arc::clone(&self.inner);
        spawn("tenure-timer", Box::new(move || inner.watch_time()))?;
        let inner = Arc::clone(&self.inner);
        spawn("tenure-scans", Box::new(move || inner.scan()))?;
        let events = Arc::clone(&self.inner.events);
        spawn("tenure-events", Box::new(move || events.tell()))?;
        if let Some(engine) = engine {
            let inner = Arc::clone(&self.inner);
            spawn("tenure-journal", Box::new(move || inner.keep(engine)))?;
        }
        Ok(())
    }

    fn close(&self) {
        let inner = &self.inner;
        inner.stopping.cancel();
        let shards = inner.table.lock_all();
        inner.set_status(Status::Closed);
        inner.journal.close();
        drop(shards);
        inner.timer.close();
        inner.scans.close();
        inner.events.close();
        let threads = std::mem::take(&mut *self.lock());
        for thread in threads {
            // A panic of what it does is caught in it.
            let _ = thread.join();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.close();
    }
}

/// How many are told at once: half of what the machine can do, the other half is for renewals.
fn turns() -> usize {
    let processors = std::thread::available_parallelism();
    processors.map_or(1, |count| count.get().div_ceil(2))
}

fn stopping() -> Problem {
    Problem::new(Code::Stopping, "the store is stopping")
}

fn failed() -> Problem {
    Problem::new(Code::EngineUnavailable, "the store failed and is ending")
}

/// Epochs go on increasing whatever the clock says; but only while the disk is not lost.
fn warn_of_a_late_clock(last: Option<Epoch>) {
    let wall = clock::wall();
    if let Some(last) = last
        && wall.get() < last.get()
    {
        warn!(
            epoch = last.get(),
            wall_clock_ms = wall.get(),
            "the wall clock is behind the last epoch: it went back, or a backup was restored within \
             the last day; epochs go on from the last one"
        );
    }
}

#[cfg(test)]
mod tests;

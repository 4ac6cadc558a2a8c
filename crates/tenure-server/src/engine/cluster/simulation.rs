//! A server of a cluster for simulations: the driver of the log without threads, sockets and a clock of
//! its own. It is no part of the interface of this crate.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::future::join;
use tenure_core::lease::{Change, Stored};
use tenure_core::{Instant, UnixMillis};
use tenure_register::Register;
use tokio_util::sync::CancellationToken;

use super::home::LogHome;
use super::owner::OwnedLog;
use super::serving::OwnershipClock;
use super::standby::Standby;
use super::status::ClusterStatus;
use crate::config::ClusterConfig;
use crate::engine::ring::SlotValue;
use crate::engine::{Batch, Log as _};
use crate::model::{Cause, ChangeSet, Content, HistoryLimits, LeaseChange, LeaseKey};

/// The clock of a simulated server.
#[derive(Debug, Default)]
pub struct SimulatedClock {
    now: AtomicU64,
    wall: AtomicU64,
    /// The waits: their ends and numbers.
    waits: Mutex<BTreeMap<(Instant, u64), Waker>>,
    /// The number of the last wait.
    last: AtomicU64,
}

impl SimulatedClock {
    /// Returns the current time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now.load(Ordering::Relaxed))
    }

    pub(super) fn wall(&self) -> UnixMillis {
        UnixMillis::new(self.wall.load(Ordering::Relaxed))
    }

    /// Waits until this instant.
    pub async fn wait_until(&self, at: Instant) {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let wait = Wait(self, (at, number));
        let poll = |context: &mut Context<'_>| {
            if wait.0.now() >= at {
                return Poll::Ready(());
            }
            wait.0.lock().insert(wait.1, context.waker().clone());
            Poll::Pending
        };
        poll_fn(poll).await;
    }

    fn set(&self, now: Instant, wall: UnixMillis) {
        self.now.store(now.as_nanos(), Ordering::Relaxed);
        self.wall.store(wall.get(), Ordering::Relaxed);
        while let Some(wait) = self.lock().first_entry().filter(|it| it.key().0 <= now) {
            wait.remove().wake();
        }
    }

    /// Returns the earliest end of a wait.
    fn due(&self) -> Option<Instant> {
        self.lock().keys().next().map(|(at, _)| *at)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Instant, u64), Waker>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait, which is forgotten when its future is dropped.
struct Wait<'a>(&'a SimulatedClock, (Instant, u64));

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

/// The future of a server.
pub type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Whether a future has become ready.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The driver of a server.
pub struct Driver {
    clock: Arc<SimulatedClock>,
    status: Arc<ClusterStatus>,
    task: Task,
}

impl Driver {
    /// Creates the driver of a server with this name, whose log is at this home. The future `serve`
    /// follows the log and owns it, and never ends.
    ///
    /// # Panics
    ///
    /// If the ownership duration is out of range.
    pub fn new(
        home: Arc<dyn Register>,
        name: &str,
        ownership: Duration,
        clock: &Arc<SimulatedClock>,
        serve: impl FnOnce(ClusterServer) -> Task,
    ) -> Self {
        let config = ClusterConfig {
            ownership,
            ..ClusterConfig::in_memory(name)
        };
        let home = LogHome::over("simulation", &config, "simulation".into(), home, None);
        let home = home.expect("the default name");
        let (used, stop) = (
            OwnershipClock::Simulated(Arc::clone(clock)),
            CancellationToken::new(),
        );
        let standby = Standby::new(home, &config, HistoryLimits::NONE, stop, used.clone());
        let mut standby = standby.expect("an ownership duration of 1 s to 60 s");
        standby.times.clock = used;
        Self {
            clock: Arc::clone(clock),
            status: standby.status(),
            task: serve(ClusterServer { standby }),
        }
    }

    /// Sets the time.
    pub fn set_time(&self, now: Instant, wall: UnixMillis) {
        self.clock.set(now, wall);
    }

    /// Returns whether the server may answer from memory.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.status.serving.check()
    }

    /// Lets the server do all that it can do now. Returns the time at which it can do more.
    pub fn poll(&mut self) -> Option<Instant> {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        while woken.0.swap(false, Ordering::Relaxed) {
            let _ = self.task.as_mut().poll(&mut context);
        }
        self.clock.due()
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Driver").field(&self.status).finish()
    }
}

/// A server of a cluster.
#[derive(Debug)]
pub struct ClusterServer {
    standby: Standby,
}

impl ClusterServer {
    /// Follows the log until this server owns it and has loaded it, and runs `own` then.
    ///
    /// # Errors
    ///
    /// The log is damaged.
    pub async fn follow(&mut self, own: impl AsyncFnOnce(SimulatedOwner)) -> Result<(), String> {
        let taken_over = self.standby.follow().await;
        let taken_over = taken_over.map_err(|ended| format!("{ended:?}"))?;
        let (loaded, mut log) = (taken_over.loaded, taken_over.log);
        let writer = log.writer.take();
        let owner = SimulatedOwner {
            generation: log.log.status.view().generation,
            revision: loaded.revision,
            lease: loaded.leases.into_iter().next().map(|(_, lease, _)| lease),
            log,
            batch: Batch::default(),
        };
        let writer = async {
            if let Some(writer) = writer {
                writer.start().await
            }
        };
        join(own(owner), writer).await;
        Ok(())
    }
}

/// An ownership of the log. The store has a single lease.
#[derive(Debug)]
pub struct SimulatedOwner {
    /// The number of the ownership.
    pub generation: u64,
    /// The revision of the last change.
    pub revision: u64,
    /// The lease that was loaded.
    pub lease: Option<Stored>,
    log: OwnedLog,
    batch: Batch,
}

impl SimulatedOwner {
    /// Commits the next state of the lease. Returns whether it was committed. If not, it never will be,
    /// and the ownership goes on.
    ///
    /// # Errors
    ///
    /// The ownership is over.
    pub async fn commit(&mut self, lease: Stored) -> Result<bool, String> {
        let key = LeaseKey::new(
            &"simulation".parse().expect("a name"),
            &"lease".parse().expect("a name"),
        );
        let change = LeaseChange {
            key,
            revision: self.revision + 1,
            content: Content::Lease(lease.into()),
            term: None,
            cause: Cause::Requested(Change::Released, None),
            grant_path: None,
            waiters: 0,
            remaining_ms: None,
            trace: None,
        };
        let set = ChangeSet {
            changes: vec![change],
            ..ChangeSet::default()
        };
        self.batch.encode(self.revision, &[set]);
        match self.log.append_batch(&self.batch).await {
            Ok(()) => self.revision = self.batch.revision,
            Err(error) if error.is_transient() => return Ok(false),
            Err(error) => return Err(error.to_string()),
        }
        Ok(true)
    }

    /// Does what is due, also after each commit.
    ///
    /// # Errors
    ///
    /// The ownership is over.
    pub async fn keep_up(&mut self) -> Result<(), String> {
        let kept = self.log.keep_up().await;
        kept.map_err(|error| error.to_string())
    }

    /// Returns the time after which [`keep_up`](Self::keep_up) is due.
    #[must_use]
    pub fn keep_up_within(&self) -> Duration {
        self.log.upkeep_within().unwrap_or(Duration::MAX)
    }

    /// Gives the log to the other servers.
    pub async fn leave(&mut self) {
        self.log.leave().await;
    }
}

/// Returns the number of the ownership that has written this value of a register.
#[must_use]
pub fn generation_of(value: &[u8]) -> Option<u64> {
    let value = SlotValue::decode(value).ok()?;
    Some(value.tail.generation)
}

//! A test kit: a lease store in memory, time that the test moves, and faults on demand. With it, a
//! test shows how an application leads, loses its leadership, and leads again, in milliseconds and
//! without a network.
//!
//! The candidate is the real one, with its thread and its state machine, and the store applies the
//! real rules. Only the clock and the network are replaced. The store's time stands still until the
//! test moves it.
//!
//! # A task that sleeps and reports progress
//!
//! Use tokio's paused time (`start_paused`, tokio's feature `test-util`):
//! [`advance`](TestStore::advance) and [`advance_until`](TestStore::advance_until) then move
//! tokio's time together with the store's, so the timers of the task fire as they would in
//! production.
//!
//! ```
//! use std::time::Duration;
//! use tenure::testing::TestStore;
//! use tenure::{Config, EndReason, Leadership};
//!
//! /// The task under test: a unit of work every 200 ms, each with a progress report.
//! async fn work(leadership: Leadership) {
//!     let lost = leadership.cancellation();
//!     while !lost.is_cancelled() {
//!         tokio::time::sleep(Duration::from_millis(200)).await;
//!         leadership.report_progress();
//!     }
//! }
//!
//! # // In a test: #[tokio::test(start_paused = true)]
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let store = TestStore::start()?;
//!     let config = Config::new("billing/nightly".parse()?)
//!         .with_adjusted_timings(|timings| {
//!             timings.progress_deadline = Some(Duration::from_secs(1));
//!         })?;
//!     let candidate = store.candidate(config);
//!     let mut term = tokio::spawn(async move {
//!         candidate.run_one_term(std::future::pending(), work).await
//!     });
//!
//!     // The task reports progress, so it is healthy.
//!     store.advance(Duration::from_secs(30)).await;
//!     assert!(!term.is_finished());
//!
//!     // The store is cut off: the term ends before the lease does.
//!     store.set_reachable(false);
//!     let ended = store.advance_until(&mut term).await??.expect("a term");
//!     assert_eq!(ended.reason, EndReason::RenewDeadline);
//!     Ok(())
//! }
//! ```
//!
//! The end of a term takes time of its own: the task has its stop grace, the release of the lease
//! its timeout, and the next campaign its cool-down. A test that awaits one of these ends must move
//! the time meanwhile with [`advance_until`](TestStore::advance_until).
//!
//! # Without paused time
//!
//! Without paused time, tokio's timers run in real time, independent of the store's time. This is
//! sufficient for applications that do not sleep while they lead:
//!
//! ```
//! use std::time::Duration;
//! use tenure::testing::TestStore;
//! use tenure::{Config, EndReason};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = TestStore::start()?;
//! let candidate = store.candidate(Config::new("billing/nightly".parse()?));
//!
//! let leadership = candidate.campaign().await?;
//! assert!(leadership.is_valid());
//!
//! store.set_reachable(false);
//! store.advance(Duration::from_secs(11)).await;
//! assert!(!leadership.is_valid());
//! assert_eq!(leadership.lost().await, EndReason::RenewDeadline);
//! # Ok(())
//! # }
//! ```
//!
//! With paused time, do not await the candidate alone while its task has timers (`term.await`
//! above): tokio would then advance from timer to timer, and the store's time would stand still.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use tenure_core::lease::Operation;
use tenure_core::{CandidateId, ElectionName, Instant};
use tokio::sync::watch;

use crate::api::candidate::Candidate;
use crate::api::candidate_runtime::CandidateRuntime;
use crate::base::clock::{Clock, ManualClock};
use crate::config::{Config, OnOverrun, Strategy};
use crate::http::store::{LeaseView, TermView};
use crate::service::StartError;
use crate::service::memory::MemoryStore;

/// The real time that the driver's thread may take for the work that is due, even on a busy
/// machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// The real time for the tasks of other threads after each step.
const REAL_TIME_PER_STEP: Duration = Duration::from_millis(1);

/// The real time between two checks whether the work that is due is done.
const REAL_TIME_PER_CHECK: Duration = Duration::from_micros(50);

/// The number of times that the tasks of the test's runtime run after each step.
const ROUNDS: usize = 10;

/// The longest step. Candidates read their clock at least this often.
const STEP: Duration = Duration::from_millis(100);

/// The longest store time for which [`TestStore::advance_until`] waits.
const LIMIT: Duration = Duration::from_secs(3600);

/// A lease store in memory, with candidates that compete in it by a clock that only the test moves,
/// such as with [`advance`](Self::advance). Clones refer to the same store.
#[derive(Clone, Debug)]
pub struct TestStore {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) time: ManualClock,
    pub(crate) runtime: CandidateRuntime,
}

impl TestStore {
    /// Starts a store, and a thread for its candidates. Its wall clock starts 1,000 s after the
    /// Unix epoch.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the thread can't be started.
    pub fn start() -> Result<Self, StartError> {
        let time = ManualClock::start();
        let clock = Clock::Manual(time.clone());
        Ok(Self {
            runtime: CandidateRuntime::start_with(clock.clone())?,
            store: MemoryStore::new(clock),
            time,
        })
    }

    /// Starts a candidate that competes in this store. The configuration's addresses are ignored.
    /// An overrun is reported instead of ending the process, which is the test
    /// ([`OnOverrun::Report`]); [`OnOverrun::Call`] is called.
    ///
    /// # Panics
    ///
    /// If the configuration's strategy is not [`Strategy::Lease`], because this store does not have
    /// the rules of other strategies. To test a configuration with another strategy, replace the
    /// strategy ([`Config::with_strategy`]).
    #[must_use]
    #[track_caller]
    pub fn candidate(&self, config: Config) -> Candidate {
        assert!(
            matches!(config.strategy, Strategy::Lease),
            "the test store elects by a lease, and the configuration says strategy = {:?}: use \
             with_strategy(Strategy::Lease)",
            config.strategy.name()
        );
        let config = match config.on_overrun {
            OnOverrun::Exit => config.with_on_overrun(OnOverrun::Report),
            _ => config,
        };
        let backend = self.store.backend(&config);
        let backends = (backend.clone(), backend);
        self.runtime.lease_candidate(config, backends)
    }

    /// Advances the store's time, in steps of at most 100 ms, and lets all candidates and tasks do
    /// the work that is due at each step. Also advances tokio's time if it is paused.
    pub async fn advance(&self, time: Duration) {
        self.time.advance(time).await;
    }

    /// Advances the store's time until `future` is ready, and returns its output. Use it for a task
    /// or a call that ends after some time, such as `advance_until(&mut handle)`.
    ///
    /// # Panics
    ///
    /// If the future is not ready after one hour of the store's time.
    pub async fn advance_until<F: Future>(&self, future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        let end = self.time.now() + LIMIT;
        loop {
            if let Some(output) = future.as_mut().now_or_never() {
                return output;
            }
            assert!(
                self.time.now() < end,
                "the future is not ready after {LIMIT:?} of the store's time"
            );
            self.time.advance(STEP).await;
        }
    }

    /// Advances the store's time in one step, as after a suspension of the machine. Tokio's time
    /// stands still if it is paused.
    pub async fn jump(&self, time: Duration) {
        self.time.move_by(time).await;
    }

    /// Sets whether requests reach the store. Requests that do not reach it time out.
    pub fn set_reachable(&self, is_reachable: bool) {
        self.store.set_reachable(is_reachable);
    }

    /// Drops the next `count` replies: the store executes the requests, but its answers do not
    /// arrive.
    pub fn lose_replies(&self, count: usize) {
        self.store.lock().replies_to_lose = count;
    }

    /// Breaks a lease with this break period for its holder. Returns false if the lease is free.
    #[allow(clippy::must_use_candidate)] // The call has an effect, so callers may ignore the result.
    pub fn break_lease(&self, election: &ElectionName, period: Duration) -> bool {
        let operation = Operation::Break(Some(period));
        self.store.apply(election, &operation, None).is_ok()
    }

    /// Hands over a lease like an operator: its holder must stop within this time, and then `to`
    /// has the same time to acquire the lease, also if it does not wait yet. Returns false if the
    /// lease is free.
    #[allow(clippy::must_use_candidate)] // The call has an effect.
    pub fn hand_over(&self, election: &ElectionName, to: &CandidateId, within: Duration) -> bool {
        let to = to.clone();
        let operation = Operation::SwitchOver {
            to,
            within: Some(within),
            forced: true,
        };
        self.store.apply(election, &operation, None).is_ok()
    }

    /// Returns a lease as the store shows it, or `None` if no candidate has competed for it.
    #[must_use]
    pub fn lease(&self, election: &ElectionName) -> Option<LeaseView> {
        self.store.lease(election)
    }

    /// Returns the terms of a lease, newest first, each with the reason for its end.
    #[must_use]
    pub fn history(&self, election: &ElectionName) -> Vec<TermView> {
        self.store.history(election)
    }

    /// Returns the number of requests that have reached the store. Several renewals may share a
    /// request.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.store.lock().requests
    }
}

impl ManualClock {
    /// Creates a clock that stands still. Its time is later than the origin, so that earlier times
    /// exist.
    pub(crate) fn start() -> Self {
        let start = Instant::default() + Duration::from_secs(1_000);
        Self {
            time: watch::Sender::new(start),
            done: watch::Sender::new(start),
        }
    }

    fn now(&self) -> Instant {
        *self.time.borrow()
    }

    pub(crate) async fn advance(&self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            let step = end.since(self.now()).min(STEP);
            let is_paused = self.move_by(step).await;
            if is_paused {
                // This is the only way to advance paused time without tokio's feature `test-util`.
                tokio::time::sleep(step).await;
                yield_to_tasks().await;
            }
        }
    }

    /// Advances the clock, and lets the driver's thread and the tasks of this runtime do the work
    /// that is due. Returns whether tokio's time is paused.
    pub(crate) async fn move_by(&self, time: Duration) -> bool {
        let time = self.now() + time;
        self.time.send_replace(time);
        let (done, before) = (self.done.clone(), tokio::time::Instant::now());
        // While a blocking task runs, tokio does not advance a paused time to the next timer. The
        // tasks of other threads need some real time to finish their work.
        let waited = tokio::task::spawn_blocking(move || {
            let until = std::time::Instant::now() + PATIENCE;
            // A thread that has died never does its work, so this wait is limited. The test detects
            // the end of the thread itself.
            while *done.borrow() < time && std::time::Instant::now() < until {
                thread::sleep(REAL_TIME_PER_CHECK);
            }
            thread::sleep(REAL_TIME_PER_STEP);
        });
        let _ = waited.await;
        let is_paused = tokio::time::Instant::now() == before;
        yield_to_tasks().await;
        is_paused
    }
}

async fn yield_to_tasks() {
    for _ in 0..ROUNDS {
        tokio::task::yield_now().await;
    }
}

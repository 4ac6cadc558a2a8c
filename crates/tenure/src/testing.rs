//! A store in memory, time that a test moves, and faults on demand: for testing what an application
//! does when it leads, loses, and leads again, in milliseconds and without a network.
//!
//! The candidate is the real one, with its thread and its machine; the store applies the real rules.
//! Only the clock and the way between them are the test's. Time stands still until it is moved.
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

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::lease::keeper::{Answer, Request};
use tenure_core::lease::{
    self, Acquire, Change, LeaseDuration, LeaseId, Metadata, Operation, Record, Rejection, Rules,
};
use tenure_core::{ElectionName, Epoch, Instant, Name, UnixMillis};
use tokio::sync::watch;

use crate::candidate::Candidate;
use crate::clock::{Clock, ManualClock};
use crate::config::Config;
use crate::renewer::{ConnectError, Renewer};
use crate::store::{Code, LeaseView, Link, Problem, StoreError, Watcher};

/// How long the renewal thread may take for what is due, on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the tasks of a test's runtime get their turn after time has moved.
const ROUNDS: usize = 10;

/// How finely time is moved: candidates look at their clock at least so often.
const STEP: Duration = Duration::from_millis(100);

/// A lease store in memory, with candidates that compete in it by a clock that only moves when
/// [`advance`](Self::advance) moves it. Clones are the same store.
#[derive(Clone, Debug)]
pub struct TestStore {
    shared: Arc<Shared>,
    renewer: Renewer,
}

#[derive(Debug)]
struct Shared {
    time: ManualClock,
    clock: Clock,
    /// Counts changes of leases and of the network, for those who wait for one.
    changes: watch::Sender<u64>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    leases: BTreeMap<ElectionName, (Record, u64)>,
    revision: u64,
    is_reachable: bool,
    replies_to_lose: usize,
    requests: u64,
}

impl TestStore {
    /// Starts a store and a renewal thread for its candidates. It is midnight of an ordinary day.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: the thread can't be started.
    pub fn start() -> Result<Self, ConnectError> {
        let time = ManualClock::start();
        let clock = Clock::Manual(time.clone());
        let state = State {
            leases: BTreeMap::new(),
            revision: 0,
            is_reachable: true,
            replies_to_lose: 0,
            requests: 0,
        };
        let renewer = Renewer::start_with(clock.clone())?;
        let (changes, state) = (watch::Sender::new(0), Mutex::new(state));
        let shared = Arc::new(Shared {
            time,
            clock,
            changes,
            state,
        });
        Ok(Self { shared, renewer })
    }

    /// A candidate that competes in this store. The configuration's addresses don't matter.
    #[must_use]
    pub fn candidate(&self, config: Config) -> Candidate {
        let (link, watcher) = self.ways(&config);
        self.renewer.candidate_by(config, link, watcher)
    }

    /// A candidate that competes in this store and among peers.
    #[cfg(test)]
    pub(crate) fn candidate_in_both(
        &self,
        config: Config,
        parts: crate::driver::peers::Parts,
    ) -> Candidate {
        let (link, watcher) = self.ways(&config);
        self.renewer.candidate_in_both(config, parts, link, watcher)
    }

    #[cfg(test)]
    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    fn ways(&self, config: &Config) -> (Link, Watcher) {
        let link = TestLink {
            shared: self.shared.clone(),
            of: Arc::new(config.clone()),
        };
        let watcher = Watcher::Testing(link.clone());
        (Link::Testing(link), watcher)
    }

    /// Moves time on, in small steps, and lets everybody do what is due at each.
    pub async fn advance(&self, time: Duration) {
        self.shared.time.advance(time).await;
    }

    /// Moves time on at one stroke, as after a suspension of the machine.
    pub async fn jump(&self, time: Duration) {
        self.shared.time.jump(time).await;
    }

    /// Whether requests reach the store from now on. Those that don't run into their timeouts.
    pub fn set_reachable(&self, is_reachable: bool) {
        self.shared.lock().is_reachable = is_reachable;
        self.shared.tell();
    }

    /// The next so many replies are lost: the store has acted, and its answer does not arrive.
    pub fn lose_replies(&self, count: usize) {
        self.shared.lock().replies_to_lose = count;
    }

    /// Breaks a lease, with this period for its holder. False if nobody holds it.
    #[allow(clippy::must_use_candidate)] // It acts; who needs no answer needs none.
    pub fn break_lease(&self, election: &ElectionName, period: Duration) -> bool {
        self.shared
            .apply(election, &Operation::Break(Some(period)))
            .is_ok()
    }

    /// One lease, as the store shows it; `None` if nobody has competed for it.
    #[must_use]
    pub fn lease(&self, election: &ElectionName) -> Option<LeaseView> {
        self.shared.settle(election);
        self.shared.view(election)
    }

    /// How many requests have reached the store so far; several renewals at once are one.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.lock().requests
    }
}

impl ManualClock {
    /// A clock that stands still. Not at the origin, so that nothing is before it.
    pub(crate) fn start() -> Self {
        let start = Instant::default() + Duration::from_secs(1_000);
        let (time, done) = (watch::Sender::new(start), watch::Sender::new(start));
        Self { time, done }
    }

    fn now(&self) -> Instant {
        *self.time.borrow()
    }

    pub(crate) async fn advance(&self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            let next = (self.now() + STEP).min(end);
            self.move_to(next).await;
        }
    }

    pub(crate) async fn jump(&self, time: Duration) {
        self.move_to(self.now() + time).await;
    }

    /// Moves the clock, and lets the renewal thread and this runtime's tasks do what is due.
    async fn move_to(&self, time: Instant) {
        self.time.send_replace(time);
        let mut done = self.done.subscribe();
        // The thread may have died, which the test will notice by itself.
        let _ = tokio::time::timeout(PATIENCE, done.wait_for(|done| *done >= time)).await;
        for _ in 0..ROUNDS {
            tokio::task::yield_now().await;
        }
        // Only real time tells when another thread's tasks have nothing more to do.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

impl Shared {
    fn now(&self) -> Instant {
        self.time.now()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn apply(&self, election: &ElectionName, operation: &Operation) -> Result<Change, Rejection> {
        let now = self.now();
        let mut state = self.lock();
        let revision = state.revision + 1;
        let (record, changed_at) = state.leases.entry(election.clone()).or_default();
        let lapsed = record.settle(now).is_some();
        let applied = lease::apply(record, operation, now, &Rules::NATIVE);
        if lapsed || applied.as_ref().is_ok_and(|applied| applied.durable) {
            *changed_at = revision;
            state.revision = revision;
            drop(state);
            self.tell();
        }
        applied.map(|applied| applied.change)
    }

    /// A term that time has ended is a change like any other.
    fn settle(&self, election: &ElectionName) {
        let now = self.now();
        let mut state = self.lock();
        let revision = state.revision + 1;
        if let Some((record, changed_at)) = state.leases.get_mut(election)
            && record.settle(now).is_some()
        {
            *changed_at = revision;
            state.revision = revision;
        }
    }

    fn view(&self, election: &ElectionName) -> Option<LeaseView> {
        let now = self.now();
        let state = self.lock();
        let (record, revision) = state.leases.get(election)?;
        let view = LeaseView::of(election.namespace(), election.name(), record, now);
        Some(LeaseView {
            revision: *revision,
            ..view
        })
    }

    /// Waits for a change, or until it is `end`; false if it is.
    async fn change_before(&self, seen: &mut watch::Receiver<u64>, end: Instant) -> bool {
        tokio::select! {
            _ = seen.changed() => true,
            () = self.clock.sleep_until(end) => false,
        }
    }
}

/// A candidate's way to a [`TestStore`].
#[derive(Clone, Debug)]
pub(crate) struct TestLink {
    shared: Arc<Shared>,
    of: Arc<Config>,
}

impl TestLink {
    pub(crate) fn is_same_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) async fn send(&self, request: Request, timeout: Duration) -> Answer {
        let end = self.shared.now() + timeout;
        if !self.arrives() {
            return self.no_answer(end).await;
        }
        let answer = match request {
            Request::Acquire {
                lease_id,
                wait,
                min_epoch,
            } => self.acquire(lease_id, wait, min_epoch).await,
            Request::Renew(lease_id) => self.apply(&Operation::Renew(lease_id, None)),
            Request::Release { lease_id, .. } => self.apply(&Operation::Release(lease_id)),
            Request::HandOver {
                lease_id,
                to,
                within,
            } => self.apply(&Operation::HandOver {
                lease_id,
                to,
                within,
            }),
        };
        if self.reply_is_lost() {
            self.no_answer(end).await
        } else {
            answer
        }
    }

    pub(crate) async fn renew_many(
        &self,
        namespace: &Name,
        renewals: &[(Name, LeaseId)],
        timeout: Duration,
    ) -> Vec<Answer> {
        let end = self.shared.now() + timeout;
        let mut answers = Vec::new();
        if self.arrives() {
            for (name, lease_id) in renewals {
                let election = ElectionName::new(namespace.clone(), name.clone());
                let renewed = self
                    .shared
                    .apply(&election, &Operation::Renew(*lease_id, None));
                answers.push(Answer::from(renewed));
            }
            if !self.reply_is_lost() {
                return answers;
            }
        }
        vec![self.no_answer(end).await; renewals.len()]
    }

    pub(crate) fn proclaim(&self, lease_id: LeaseId, metadata: Metadata) -> Result<(), StoreError> {
        let unreachable = || StoreError::Unreachable {
            endpoint: self.of.servers[0].clone(),
            reason: "the test has made it so".into(),
        };
        if !self.arrives() {
            return Err(unreachable());
        }
        let operation = Operation::SetMetadata(lease_id, metadata);
        let changed = self.shared.apply(&self.of.election, &operation);
        changed
            .map(|_| ())
            .map_err(|rejection| StoreError::Problem(Problem::from(&rejection)))
    }

    pub(crate) async fn lease_after(
        &self,
        election: &ElectionName,
        after: u64,
        wait: Duration,
    ) -> Result<Option<LeaseView>, StoreError> {
        let mut seen = self.shared.changes.subscribe();
        let end = self.shared.now() + wait;
        loop {
            if !self.shared.lock().is_reachable {
                let detail = "the test has made the store unreachable";
                return Err(StoreError::Problem(Problem::new(
                    Code::EngineUnavailable,
                    detail,
                )));
            }
            self.shared.settle(election);
            let view = self.shared.view(election);
            if view.as_ref().is_none_or(|view| view.revision > after) {
                return Ok(view);
            }
            let lapse = self.next_lapse().map_or(end, |lapse| lapse.min(end));
            if !self.shared.change_before(&mut seen, lapse).await && self.shared.now() >= end {
                return Ok(view);
            }
        }
    }

    /// Waits in the store until the lease is granted or the time is up.
    async fn acquire(&self, lease_id: LeaseId, wait: Duration, min_epoch: Option<Epoch>) -> Answer {
        let mut seen = self.shared.changes.subscribe();
        let end = self.shared.now() + wait;
        let request = Acquire {
            lease_id,
            holder: self.of.candidate.clone(),
            duration: LeaseDuration::Fixed(self.of.timings.lease_duration()),
            lock_delay: self.of.lock_delay,
            min_epoch,
            metadata: self.of.metadata.clone(),
        };
        loop {
            // A wall clock that goes along with the test's time.
            let wall = UnixMillis::new(self.shared.now().as_nanos() / 1_000_000);
            let operation = Operation::Acquire(request.clone(), wall);
            let refused = match self.shared.apply(&self.of.election, &operation) {
                Err(
                    refused @ (Rejection::Held { .. }
                    | Rejection::LockDelay { .. }
                    | Rejection::Reserved { .. }),
                ) => refused,
                result => return Answer::from(result),
            };
            let lapse = self.next_lapse().map_or(end, |lapse| lapse.min(end));
            if !self.shared.change_before(&mut seen, lapse).await && self.shared.now() >= end {
                return Answer::from(Err(refused));
            }
        }
    }

    fn next_lapse(&self) -> Option<Instant> {
        let now = self.shared.now();
        self.shared
            .lock()
            .leases
            .get(&self.of.election)?
            .0
            .next_lapse(now)
    }

    fn apply(&self, operation: &Operation) -> Answer {
        Answer::from(self.shared.apply(&self.of.election, operation))
    }

    fn arrives(&self) -> bool {
        let mut state = self.shared.lock();
        if state.is_reachable {
            state.requests += 1;
        }
        state.is_reachable
    }

    fn reply_is_lost(&self) -> bool {
        let mut state = self.shared.lock();
        let lost = state.replies_to_lose > 0;
        state.replies_to_lose = state.replies_to_lose.saturating_sub(1);
        lost || !state.is_reachable
    }

    async fn no_answer(&self, end: Instant) -> Answer {
        self.shared.clock.sleep_until(end).await;
        Answer::Unknown("no answer in time".into())
    }
}

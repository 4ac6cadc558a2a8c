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

mod lease;
mod link;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::lease::candidate::Answer;
use tenure_core::lease::{Change, Operation, Priority, Rejection, Waiting};
use tenure_core::{CandidateId, ElectionName, Instant};
use tokio::sync::{oneshot, watch};

use lease::Lease;

pub(crate) use link::TestLink;

use crate::candidate::Candidate;
use crate::clock::{Clock, ManualClock};
use crate::config::Config;
use crate::renewer::{ConnectError, Renewer};
use crate::store::{LeaseView, Link, TermView, Watcher};

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
    leases: BTreeMap<ElectionName, Lease>,
    revision: u64,
    is_reachable: bool,
    replies_to_lose: usize,
    requests: u64,
}

impl TestStore {
    /// Starts a store and a renewal thread for its candidates. It is early on a day in 1970.
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
        parts: crate::runtime::peers::Parts,
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
            .apply(election, &Operation::Break(Some(period)), None)
            .is_ok()
    }

    /// Hands a lease over as an operator does: its holder has so long to stop, and `to` as long to
    /// come. False if nobody holds it.
    #[allow(clippy::must_use_candidate)] // As above.
    pub fn hand_over(&self, election: &ElectionName, to: &CandidateId, within: Duration) -> bool {
        let to = to.clone();
        self.shared
            .apply(election, &Operation::SwitchOver { to, within }, None)
            .is_ok()
    }

    /// One lease, as the store shows it; `None` if nobody has competed for it.
    #[must_use]
    pub fn lease(&self, election: &ElectionName) -> Option<LeaseView> {
        self.shared.settle(election);
        self.shared.view(election)
    }

    /// The terms of a lease, newest first, with how and why they ended.
    #[must_use]
    pub fn history(&self, election: &ElectionName) -> Vec<TermView> {
        self.shared.settle(election);
        let state = self.shared.lock();
        let lease = state.leases.get(election);
        lease.map_or_else(Vec::new, |lease| {
            lease.terms.iter().rev().cloned().collect()
        })
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

    fn apply(
        &self,
        election: &ElectionName,
        operation: &Operation,
        reason: Option<&str>,
    ) -> Result<Change, Rejection> {
        self.lock().leases.entry(election.clone()).or_default();
        let applied = self.change(election, |lease, now| {
            let applied = lease.apply(operation, reason, now);
            let is_change = applied.as_ref().is_ok_and(|applied| applied.durable);
            (is_change, applied)
        });
        // It was made above, and none is ever forgotten.
        let applied = applied.unwrap_or(Err(Rejection::NotHeld))?;
        Ok(applied.change)
    }

    /// A term that time has ended is a change like any other.
    fn settle(&self, election: &ElectionName) {
        self.change(election, |_, _| (false, ()));
    }

    /// Lets this one wait, behind those who go before it.
    fn join(
        &self,
        election: &ElectionName,
        priority: Priority,
        waiting: Waiting<oneshot::Sender<Answer>>,
    ) {
        // A request that this one replaces hears of it, though the lease is as it was.
        self.change(election, |lease, _| {
            let replaced = lease.lease.wait(priority, waiting);
            (replaced.is_some(), ())
        });
    }

    /// Does something to a lease, for which those who wait longer are served before and after; and
    /// tells everybody if it is a change.
    fn change<T>(
        &self,
        election: &ElectionName,
        change: impl FnOnce(&mut Lease, Instant) -> (bool, T),
    ) -> Option<T> {
        let now = self.now();
        let mut state = self.lock();
        let revision = state.revision + 1;
        let lease = state.leases.get_mut(election)?;
        let is_before = lease.serve(now);
        let (is_change, result) = change(lease, now);
        let is_after = lease.serve(now);
        if is_before || is_change || is_after {
            lease.revision = revision;
            state.revision = revision;
            drop(state);
            self.tell();
        }
        Some(result)
    }

    fn view(&self, election: &ElectionName) -> Option<LeaseView> {
        let now = self.now();
        let state = self.lock();
        let lease = state.leases.get(election)?;
        let view = LeaseView::of(
            election.namespace(),
            election.name(),
            lease.lease.record(),
            now,
        );
        Some(LeaseView {
            waiters: lease.lease.waiting() as u64,
            revision: lease.revision,
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

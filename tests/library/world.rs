//! The shared parts of these tests: a store, candidates, and a record of the runs of their tasks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure::store::{BreakRequest, LeaseView, State, StoreClient};
use tenure::{
    Candidate, CandidateId, Config, Epoch, Leadership, OnOverrun, Timings, TimingsOptions,
};
use tenure_tests::proxy::Proxy;
use tenure_tests::store::{LocalStore, endpoint};
use tenure_tests::{Limit, wait_until};

/// The election of all candidates; each test has a store of its own.
pub(crate) const ELECTION: &str = "tests/job";

/// A store, and a client without faults.
pub(crate) struct World {
    pub(crate) store: LocalStore,
    pub(crate) client: StoreClient,
    _limit: Limit,
}

impl World {
    pub(crate) fn start() -> Self {
        let store = LocalStore::start();
        let client = StoreClient::new(&[store.endpoint()]).unwrap();
        Self {
            store,
            client,
            _limit: Limit::start(),
        }
    }

    /// A configuration for the store without a proxy, with [`brisk`] timings. An overrun must not
    /// end the tests, which keep guards of lost terms.
    pub(crate) fn config(&self, name: &str) -> Config {
        Config::new(ELECTION.parse().unwrap())
            .with_candidate(name.parse().unwrap())
            .with_servers([self.store.endpoint()])
            .with_timings(brisk())
            .with_on_overrun(OnOverrun::Report)
    }

    pub(crate) async fn candidate(&self, name: &str) -> Candidate {
        Candidate::start(self.config(name)).await.unwrap()
    }

    /// A candidate behind a proxy that can fail.
    pub(crate) async fn candidate_behind(&self, proxy: &Proxy, name: &str) -> Candidate {
        let config = self.config(name).with_servers([endpoint(proxy.address())]);
        Candidate::start(config).await.unwrap()
    }

    pub(crate) async fn proxy(&self) -> Proxy {
        Proxy::start(self.store.address()).await.unwrap()
    }

    /// The lease in the store; `None` if it was never acquired.
    pub(crate) async fn lease(&self) -> Option<LeaseView> {
        let election = ELECTION.parse().unwrap();
        self.client.lease(&election).await.unwrap()
    }

    /// The current holder and its epoch.
    pub(crate) async fn holder(&self) -> Option<(String, u64)> {
        let lease = self.lease().await?;
        lease.holder.zip(lease.epoch)
    }

    /// Waits until this candidate holds the lease, and returns its epoch.
    pub(crate) async fn held_by(&self, name: &str) -> u64 {
        wait_until("a holder", async || {
            let (holder, epoch) = self.holder().await?;
            (holder == name).then_some(epoch)
        })
        .await
    }

    /// Waits until the lease was acquired for the first time.
    pub(crate) async fn held_by_anyone_once(&self) {
        wait_until("a lease", async || self.lease().await).await;
    }

    /// Waits until the store has this number of waiters.
    pub(crate) async fn waiting(&self, count: u64) {
        wait_until("waiters", async || {
            (self.lease().await?.waiters == count).then_some(())
        })
        .await;
    }

    /// Waits until the lease was *released*. An expired or broken lease does not count.
    pub(crate) async fn released(&self) {
        wait_until("a release", async || {
            (self.lease().await?.state == State::Available).then_some(())
        })
        .await;
    }

    /// Waits until the lease is free, for any reason.
    pub(crate) async fn free(&self) {
        wait_until("a free lease", async || {
            self.holder().await.is_none().then_some(())
        })
        .await;
    }

    pub(crate) async fn break_lease(&self, period: Option<Duration>) {
        let request = BreakRequest {
            break_period_ms: period.map(Into::into),
            reason: None,
        };
        let election = ELECTION.parse().unwrap();
        self.client.break_lease(&election, &request).await.unwrap();
    }

    /// An instant before which the lease cannot expire, even without renewals from now on.
    pub(crate) async fn earliest_expiry(&self) -> Instant {
        let now = Instant::now();
        let lease = self.lease().await.unwrap();
        assert_eq!(lease.state, State::Leased);
        now + Duration::from_millis(lease.remaining_ms.unwrap())
    }
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Short, and with a wide margin between the hard stop (1 s) and the end of the lease (1.5 s), so
/// that delays of a busy machine do not look like an overlap.
pub(crate) fn brisk() -> Timings {
    timings(1500, 300, 700, 300)
}

/// Like [`brisk`], but with a cool-down that lasts longer than any test.
pub(crate) fn with_long_cool_down() -> Timings {
    let mut options = options(1500, 300, 700, 300);
    options.cool_down = Some(ms(3_600_000));
    Timings::new(&options).unwrap()
}

/// A lease that does not expire during a test: each leader was granted it after a release.
pub(crate) fn long() -> Timings {
    timings(120_000, 300, 60_000, 20_000)
}

/// Lease duration, renew interval, renew deadline and stop grace; the cool-down equals the renew
/// interval.
pub(crate) fn timings(lease: u64, interval: u64, deadline: u64, grace: u64) -> Timings {
    Timings::new(&options(lease, interval, deadline, grace)).unwrap()
}

fn options(lease: u64, interval: u64, deadline: u64, grace: u64) -> TimingsOptions {
    let mut options = TimingsOptions::default();
    options.lease_duration = Some(ms(lease));
    options.renew_interval = Some(ms(interval));
    options.renew_deadline = Some(ms(deadline));
    options.stop_grace = Some(ms(grace));
    options.cool_down = Some(ms(interval));
    options
}

/// Waits until this candidate knows that it leads: the store knows it a little earlier.
pub(crate) async fn leads(candidate: &Candidate) {
    let led = async || candidate.leadership().map(drop);
    wait_until("a term", led).await;
}

/// A task that does nothing until it is cancelled, and stops at once.
pub(crate) async fn stop_when_lost(leadership: Leadership) {
    leadership.lost().await;
}

/// A task that must not run. Its panic propagates to the test.
pub(crate) fn never(_: Leadership) -> std::future::Pending<()> {
    panic!("the candidate must not lead")
}

/// The runs of the tasks.
#[derive(Clone, Default)]
pub(crate) struct TaskRuns(Arc<Mutex<Vec<TaskRun>>>);

#[derive(Clone, Debug)]
pub(crate) struct TaskRun {
    pub(crate) candidate: CandidateId,
    pub(crate) epoch: Epoch,
    pub(crate) began: Instant,
    pub(crate) ended: Option<Instant>,
}

/// Exists as long as a run of a task: it must be the first variable of the task.
pub(crate) struct RunningTask {
    runs: TaskRuns,
    index: usize,
}

impl TaskRuns {
    pub(crate) fn begin(&self, leadership: &Leadership) -> RunningTask {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = runs.len();
        runs.push(TaskRun {
            candidate: leadership.candidate().clone(),
            epoch: leadership.epoch(),
            began: Instant::now(),
            ended: None,
        });
        let runs = self.clone();
        RunningTask { runs, index }
    }

    pub(crate) fn all(&self) -> Vec<TaskRun> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until this number of runs have begun, and returns the last of them.
    pub(crate) async fn begun(&self, count: usize) -> TaskRun {
        wait_until("the begin of a task", async || {
            self.all().get(count - 1).cloned()
        })
        .await
    }

    /// Waits until the run with this number has ended.
    pub(crate) async fn ended(&self, count: usize) -> TaskRun {
        wait_until("the end of a task", async || {
            let run = self.all().get(count - 1).cloned();
            run.filter(|run| run.ended.is_some())
        })
        .await
    }

    /// Checks that no run began before the end of the one before, and that epochs increase.
    pub(crate) fn assert_one_at_a_time(&self) {
        let runs = self.all();
        for pair in runs.windows(2) {
            let (first, second) = (&pair[0], &pair[1]);
            assert!(
                first.ended.is_some_and(|ended| ended <= second.began),
                "overlapping runs: {first:?} {second:?}"
            );
            assert!(first.epoch < second.epoch, "{first:?} {second:?}");
        }
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        let mut runs = self.runs.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs[self.index].ended = Some(Instant::now());
    }
}

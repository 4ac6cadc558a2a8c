//! What these tests share: a store, candidates at it, and a record of who worked when.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure::store::{BreakRequest, LeaseView, State, StoreClient};
use tenure::{Candidate, CandidateId, Config, Epoch, Leadership, Timings, TimingsOptions};
use tenure_tests::proxy::Proxy;
use tenure_tests::store::{LocalStore, endpoint};
use tenure_tests::{Limit, wait_until};

/// What all of them compete for; each test has a store of its own.
pub(crate) const ELECTION: &str = "tests/job";

/// A store, and a way to it that nothing disturbs.
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

    /// A configuration that reaches the store directly, with [`brisk`] timings.
    pub(crate) fn config(&self, name: &str) -> Config {
        Config::new(ELECTION.parse().unwrap())
            .with_candidate(name.parse().unwrap())
            .with_servers([self.store.endpoint()])
            .with_timings(brisk())
    }

    pub(crate) async fn candidate(&self, name: &str) -> Candidate {
        Candidate::start(self.config(name)).await.unwrap()
    }

    /// A candidate whose way to the store can fail.
    pub(crate) async fn candidate_behind(&self, proxy: &Proxy, name: &str) -> Candidate {
        let config = self.config(name).with_servers([endpoint(proxy.address())]);
        Candidate::start(config).await.unwrap()
    }

    pub(crate) async fn proxy(&self) -> Proxy {
        Proxy::start(self.store.address()).await.unwrap()
    }

    /// The lease as the store has it; `None` if nobody ever acquired it.
    pub(crate) async fn lease(&self) -> Option<LeaseView> {
        let election = ELECTION.parse().unwrap();
        self.client.lease(&election).await.unwrap()
    }

    /// Who holds the lease now.
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

    /// Waits until anyone has ever held the lease.
    pub(crate) async fn held_by_anyone_once(&self) {
        wait_until("a lease", async || self.lease().await).await;
    }

    /// Waits until so many wait for the lease in the store.
    pub(crate) async fn waiting(&self, count: u64) {
        wait_until("waiters", async || {
            (self.lease().await?.waiters == count).then_some(())
        })
        .await;
    }

    /// Waits until the lease was *given up*. One that expired or was broken never is that.
    pub(crate) async fn released(&self) {
        wait_until("a release", async || {
            (self.lease().await?.state == State::Available).then_some(())
        })
        .await;
    }

    /// Waits until nobody holds the lease, whatever took it from the last one.
    pub(crate) async fn free(&self) {
        wait_until("nobody to hold the lease", async || {
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

    /// An instant before which the lease can't expire if nobody renews it from now on.
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
/// that a busy machine is not taken for a broken promise.
pub(crate) fn brisk() -> Timings {
    timings(1500, 300, 700, 300)
}

/// Like [`brisk`], but after a task that failed its candidate stands back for longer than any test
/// takes.
pub(crate) fn contrite() -> Timings {
    let options = TimingsOptions {
        cool_down: Some(ms(3_600_000)),
        ..options(1500, 300, 700, 300)
    };
    Timings::new(&options).unwrap()
}

/// A lease that no test lives to see expire: whoever leads was let in by a release.
pub(crate) fn long() -> Timings {
    timings(120_000, 300, 60_000, 20_000)
}

/// Lease duration, renew interval, renew deadline and stop grace; the cool-down is as long as the
/// renew interval.
pub(crate) fn timings(lease: u64, interval: u64, deadline: u64, grace: u64) -> Timings {
    Timings::new(&options(lease, interval, deadline, grace)).unwrap()
}

fn options(lease: u64, interval: u64, deadline: u64, grace: u64) -> TimingsOptions {
    TimingsOptions {
        lease_duration: Some(ms(lease)),
        renew_interval: Some(ms(interval)),
        renew_deadline: Some(ms(deadline)),
        stop_grace: Some(ms(grace)),
        cool_down: Some(ms(interval)),
        ..TimingsOptions::default()
    }
}

/// Waits until this candidate leads, by its own word: the store knows it a little earlier.
pub(crate) async fn leads(candidate: &Candidate) {
    let led = async || candidate.leadership().map(drop);
    wait_until("a term", led).await;
}

/// A task that does nothing until it is told to stop, and stops at once.
pub(crate) async fn obedient(leadership: Leadership) {
    leadership.lost().await;
}

/// A task that must not run. Its panic goes through to the test.
pub(crate) fn never(_: Leadership) -> std::future::Pending<()> {
    panic!("it must not lead")
}

/// When which task ran.
#[derive(Clone, Default)]
pub(crate) struct Reigns(Arc<Mutex<Vec<Reign>>>);

#[derive(Clone, Debug)]
pub(crate) struct Reign {
    pub(crate) candidate: CandidateId,
    pub(crate) epoch: Epoch,
    pub(crate) began: Instant,
    pub(crate) ended: Option<Instant>,
}

/// Lives as long as a task does: to be the first variable of it.
pub(crate) struct Reigning {
    reigns: Reigns,
    index: usize,
}

impl Reigns {
    pub(crate) fn begin(&self, leadership: &Leadership) -> Reigning {
        let mut reigns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = reigns.len();
        reigns.push(Reign {
            candidate: leadership.candidate().clone(),
            epoch: leadership.epoch(),
            began: Instant::now(),
            ended: None,
        });
        let reigns = self.clone();
        Reigning { reigns, index }
    }

    pub(crate) fn all(&self) -> Vec<Reign> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until so many tasks have begun, and returns the last of them.
    pub(crate) async fn begun(&self, count: usize) -> Reign {
        wait_until("a task to begin", async || {
            self.all().get(count - 1).cloned()
        })
        .await
    }

    /// Waits until the task has ended that was number `count` to begin.
    pub(crate) async fn ended(&self, count: usize) -> Reign {
        wait_until("a task to end", async || {
            let reign = self.all().get(count - 1).cloned();
            reign.filter(|reign| reign.ended.is_some())
        })
        .await
    }

    /// No task began before the one before it was gone, and each has a greater epoch.
    pub(crate) fn assert_one_at_a_time(&self) {
        let reigns = self.all();
        for pair in reigns.windows(2) {
            let (first, second) = (&pair[0], &pair[1]);
            assert!(
                first.ended.is_some_and(|ended| ended <= second.began),
                "two tasks at once: {first:?} {second:?}"
            );
            assert!(first.epoch < second.epoch, "{first:?} {second:?}");
        }
    }
}

impl Drop for Reigning {
    fn drop(&mut self) {
        let mut reigns = self.reigns.0.lock().unwrap_or_else(PoisonError::into_inner);
        reigns[self.index].ended = Some(Instant::now());
    }
}

//! The candidate: it campaigns, leads and resigns.

use std::future::Future;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{Fuse, FusedFuture as _};
use tenure_core::lease::candidate::EndReason;
use tenure_core::{CandidateId, ElectionName};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::task::JoinError;

use crate::api::leadership::Leadership;
use crate::api::observe::{Observer, Source};
use crate::base::clock::Clock;
use crate::base::guarantee::Guarantee;
use crate::base::health::HealthCheck;
use crate::base::task::TaskResult;
use crate::base::term::TermSummary;
use crate::config::TermHook;
use crate::election::error::RunError;
use crate::election::metrics::{Metrics, Recorder};
use crate::election::term::guard::{TermGuard, run_task};
use crate::election::term::{Command, DriverHandle, TermCommand};

/// A candidate in one election.
///
/// Renewals and the watchdog run on a thread of their own, so they continue while the application's
/// runtime is blocked or busy. A candidate takes part in one campaign or term at a time:
/// [`run_while_leader`](Self::run_while_leader) and [`campaign`](Self::campaign) wait for each
/// other.
///
/// The thread ends when the candidate is dropped and its last term is over. It releases the lease
/// before it ends, but the drop does not wait for the release: if the process ends right after the
/// drop, the lease may remain held until it expires. Without an answer to the release, the thread ends
/// 5 s after the task, or 1 s after the drop if the candidate does not lead. To wait, complete `shutdown` of
/// [`run_while_leader`](Self::run_while_leader), or await [`resign`](Self::resign).
#[derive(Debug)]
pub struct Candidate {
    pub(crate) driver: Arc<DriverHandle>,
    metrics: Arc<Recorder>,
    source: Source,
    competing: Arc<Mutex<()>>,
}

impl Candidate {
    pub(crate) fn new(driver: Arc<DriverHandle>, metrics: Arc<Recorder>, source: Source) -> Self {
        #[cfg(feature = "metrics")]
        crate::election::metrics::publish(metrics.clone(), driver.terms.clone());
        Self {
            driver,
            metrics,
            source,
            competing: Arc::default(),
        }
    }

    /// Returns the election in which this candidate competes.
    #[must_use]
    pub fn election(&self) -> &ElectionName {
        &self.driver.config.election
    }

    /// Returns the id of this candidate.
    #[must_use]
    pub fn id(&self) -> &CandidateId {
        &self.driver.config.candidate
    }

    /// Returns the guarantee of this candidate's strategy.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        self.driver.config.guarantee()
    }

    /// Runs `task` whenever this candidate leads, until `shutdown` completes.
    ///
    /// A term ends when the lease is lost, when the task returns, fails or panics, or at shutdown.
    /// The task is notified ([`Leadership::lost`]), has the stop grace to end, and is aborted after
    /// it. The candidate releases the lease only after all parts of the task have ended. After a
    /// term the candidate campaigns again; if the task ended the term, it first waits for the
    /// cool-down. Two runs of the task never overlap.
    ///
    /// This method returns only after `shutdown`. It reports each ended term, including a term
    /// whose task failed, to the log and to [`Config::with_term_hook`](crate::Config::with_term_hook).
    ///
    /// # What the abort reaches
    ///
    /// An abort stops the task at an `.await`: the future is dropped, and its code does not run
    /// again. It does not reach
    ///
    /// - code between two `.await`s, such as a blocking call or a long calculation. Use
    ///   [`Leadership::spawn_blocking`] for it, and check
    ///   [`cancellation`](Leadership::cancellation) between its steps.
    /// - what the task has started by [`tokio::spawn`], [`tokio::task::spawn_blocking`] or
    ///   [`std::thread::spawn`]. The candidate does not know of it: it runs on after the lease was
    ///   released, beside the next leader. Use [`Leadership::spawn`] and
    ///   [`Leadership::spawn_blocking`], or give it a [`Leadership::hold`]. These are parts of the
    ///   task: the lease is not released before they have ended.
    ///
    /// A part that still runs after the abort keeps the lease: at a resignation, a hand-over and a
    /// shutdown the lease is renewed until the part has ended. If the lease can't be renewed,
    /// [`OnOverrun`](crate::OnOverrun) decides, and its default ends the process.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the campaign ends, or the candidate resigns: the task is notified,
    /// has its stop grace, and the lease is released after it, all in the background. A later call
    /// runs its task only after that.
    ///
    /// # Errors
    ///
    /// [`RunError`] if the lease service refuses this candidate. A service that can't be reached is
    /// not an error: the candidate logs the failure and tries again.
    ///
    /// # Examples
    ///
    /// The task is called once for each term, and owns the values that it uses: clone them into the
    /// task. It stops when [`lost`](Leadership::lost) completes, also in the middle of its pause. A
    /// loop that only checks [`is_valid`](Leadership::is_valid) would work on after the request to
    /// stop, until it is aborted in the middle of a unit of work.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use tenure::{Candidate, Leadership};
    /// # struct Ledger;
    /// # impl Ledger { async fn settle(&self, leadership: &Leadership) -> std::io::Result<()> { Ok(()) } }
    /// # async fn example(candidate: Candidate, ledger: Arc<Ledger>) -> Result<(), Box<dyn std::error::Error>> {
    /// candidate
    ///     .run_while_leader(tenure::shutdown_signal()?, |leadership| {
    ///         let ledger = ledger.clone();
    ///         async move {
    ///             while leadership.is_valid() {
    ///                 ledger.settle(&leadership).await?;
    ///                 tokio::select! {
    ///                     _ = leadership.lost() => break,
    ///                     () = tokio::time::sleep(std::time::Duration::from_secs(1)) => {}
    ///                 }
    ///             }
    ///             Ok::<(), std::io::Error>(())
    ///         }
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_while_leader<S, F, Fut>(
        &self,
        shutdown: S,
        mut task: F,
    ) -> Result<(), RunError>
    where
        S: Future<Output = ()>,
        F: FnMut(Leadership) -> Fut,
        Fut: Future<Output: TaskResult> + Send + 'static,
    {
        let mut shutdown = pin!(shutdown.fuse());
        let _competing = self.competing.lock().await;
        while !shutdown.is_terminated() {
            self.one_term(shutdown.as_mut(), &mut task).await?;
        }
        Ok(())
    }

    /// Runs `task` for one term and returns how the term ended, or `None` if `shutdown` completed
    /// before this candidate led. In all other respects, also when its future is dropped, this is
    /// [`run_while_leader`](Self::run_while_leader).
    ///
    /// # Errors
    ///
    /// [`RunError`] if the lease service refuses this candidate.
    pub async fn run_one_term<S, F, Fut>(
        &self,
        shutdown: S,
        task: F,
    ) -> Result<Option<TermSummary>, RunError>
    where
        S: Future<Output = ()>,
        F: FnOnce(Leadership) -> Fut,
        Fut: Future<Output: TaskResult> + Send + 'static,
    {
        let _competing = self.competing.lock().await;
        self.one_term(pin!(shutdown.fuse()), task).await
    }

    /// Campaigns until this candidate leads, and returns the term as a guard. The term ends when
    /// the guard is dropped or resigned; it is lost ([`Leadership::lost`]) when renewals fail.
    ///
    /// Dropping the future ends the campaign.
    ///
    /// # Errors
    ///
    /// [`RunError`] if the lease service refuses this candidate.
    pub async fn campaign(&self) -> Result<LeadershipGuard, RunError> {
        let competing = self.competing.clone().lock_owned().await;
        let mut term = self.win().await?;
        term.end_begin();
        let leadership = Leadership::of(term.term());
        Ok(LeadershipGuard {
            leadership,
            term,
            competing,
        })
    }

    /// Ends the current term, if there is one: notifies its task, and waits until all parts of the
    /// task have ended and the lease is released, or for 5 s after that if the lease can't be
    /// released.
    ///
    /// If this future is dropped, the term ends nevertheless.
    ///
    /// This does not end a campaign: [`run_while_leader`](Self::run_while_leader) campaigns again
    /// afterwards. A campaign ends when its `shutdown` completes or its future is dropped.
    pub async fn resign(&self) {
        let term = self.driver.terms.borrow().clone();
        if let Some(term) = term {
            let mut ended = term.ended.subscribe();
            term.command(TermCommand::Resign(EndReason::Resigned));
            until_ended(&mut ended).await;
        }
    }

    /// Returns the current term, if this process leads *now*. This is for code without the task's
    /// [`Leadership`], such as a request handler.
    #[must_use]
    pub fn leadership(&self) -> Option<Leadership> {
        let term = self.driver.terms.borrow().clone()?;
        let leadership = Leadership { term };
        leadership.is_valid().then_some(leadership)
    }

    /// Watches the election from now on. [`Observer::from_config`] watches an election from another
    /// process.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, because a task watches the election.
    #[must_use]
    pub fn observe(&self) -> Observer {
        Observer::new(&self.source, &self.driver.config)
    }

    /// Returns the metrics of this candidate at this moment. The call is cheap, and never delays a
    /// renewal.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(candidate: &tenure::Candidate) {
    /// let metrics = candidate.metrics();
    /// if metrics.renewals.no_answer > 0 {
    ///     eprintln!("{} renewals had no answer", metrics.renewals.no_answer);
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.metrics.snapshot(&self.driver.terms)
    }

    async fn one_term<S, F, Fut>(
        &self,
        mut shutdown: Pin<&mut Fuse<S>>,
        task: F,
    ) -> Result<Option<TermSummary>, RunError>
    where
        S: Future<Output = ()>,
        F: FnOnce(Leadership) -> Fut,
        Fut: Future<Output: TaskResult> + Send + 'static,
    {
        let guard = tokio::select! {
            biased;
            () = shutdown.as_mut() => {
                // When this returns, the lease is released and no campaign is running.
                let (done, settled) = oneshot::channel();
                if self.driver.command(Command::Settle(done)) {
                    let _ = settled.await;
                }
                return Ok(None);
            }
            guard = self.win() => guard?,
        };
        let leadership = Leadership::of(guard.term());
        // If the caller drops this future, the term must end.
        let resign_on_drop = OnDrop(|| leadership.resign());
        // The task runs on the caller's runtime. If the closure that creates the task panics, the
        // term is dropped here.
        let running = tokio::spawn(run_task(task(leadership.clone()), guard));
        if let Some(check) = &self.driver.config.health_check {
            let clock = self.driver.clock.clone();
            tokio::spawn(run_health_checks(leadership.clone(), check.clone(), clock));
        }
        let mut ended = leadership.term.ended.subscribe();
        let reason = tokio::select! {
            biased;
            reason = until_ended(&mut ended) => reason,
            () = shutdown => {
                leadership.end(EndReason::ShutDown);
                until_ended(&mut ended).await
            }
        };
        // The term has ended because the task has. The task may still be running only if the
        // candidate's thread has died.
        let error = running.await.map_or_else(panic_message, Result::err);
        std::mem::forget(resign_on_drop);
        let epoch = leadership.epoch();
        let term = TermSummary {
            epoch,
            reason,
            error,
        };
        if let Some(TermHook(hook)) = &self.driver.config.term_hook {
            hook(&term);
        }
        Ok(Some(term))
    }

    async fn win(&self) -> Result<TermGuard, RunError> {
        let (sender, won) = oneshot::channel();
        if !self.driver.command(Command::Campaign(sender)) {
            return Err(RunError::DriverGone);
        }
        let give_up_on_drop = OnDrop(|| self.driver.command(Command::GiveUp));
        let won = won.await;
        std::mem::forget(give_up_on_drop);
        won.map_err(|_| RunError::DriverGone)?
    }
}

/// Checks the task's health until the term ends. Ends the term if a check fails.
async fn run_health_checks(leadership: Leadership, check: HealthCheck, clock: Clock) {
    let failure = loop {
        tokio::select! {
            _ = leadership.lost() => return,
            () = clock.sleep_until(clock.now() + check.interval) => {}
        }
        tokio::select! {
            _ = leadership.lost() => return,
            answer = (check.ask)() => if let Err(error) = answer { break error },
            () = clock.sleep_until(clock.now() + check.timeout) => {
                break format!("no answer within {:?}", check.timeout);
            }
        }
    };
    tracing::warn!(election = %leadership.election(), candidate = %leadership.candidate(),
        epoch = leadership.epoch().get(), error = failure, "the health check has failed");
    leadership.end(EndReason::Unhealthy);
}

/// Returns the message of the task's panic, if it is text.
fn panic_message(error: JoinError) -> Option<String> {
    let panic = error.try_into_panic().ok()?;
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| Some((*panic.downcast_ref::<&str>()?).to_owned()))
}

async fn until_ended(ended: &mut tokio::sync::watch::Receiver<Option<EndReason>>) -> EndReason {
    match ended.wait_for(Option::is_some).await {
        Ok(reason) => reason.unwrap_or(EndReason::Resigned),
        Err(_) => EndReason::RenewDeadline,
    }
}

/// Calls the function when this value is dropped, unless it is forgotten.
struct OnDrop<T, F: Fn() -> T>(F);

impl<T, F: Fn() -> T> Drop for OnDrop<T, F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A term that lasts until this guard is dropped or resigned, or until the term is lost.
///
/// The lease is released only when the guard is gone, and all [holds](Leadership::hold), futures and
/// closures that its [`Leadership`] has started. A guard that outlives the hard stop counts as an
/// overrun, like a task that does not stop: nothing can abort its owner. The candidate can't campaign
/// again while the guard exists. The guard can be moved into a thread or a closure.
#[derive(Debug)]
#[must_use = "dropping the guard resigns"]
pub struct LeadershipGuard {
    leadership: Leadership,
    // Fields are dropped in this order: the term ends before the next campaign begins.
    term: TermGuard,
    competing: OwnedMutexGuard<()>,
}

impl LeadershipGuard {
    /// Ends the term, waits until the lease is released or can't be released, and returns why the
    /// term ended, which may be a loss before this call. If this future is dropped, the term ends
    /// nevertheless.
    pub async fn resign(self) -> EndReason {
        let mut ended = self.leadership.term.ended.subscribe();
        drop(self.term);
        let reason = until_ended(&mut ended).await;
        drop(self.competing);
        reason
    }
}

impl Deref for LeadershipGuard {
    type Target = Leadership;

    fn deref(&self) -> &Leadership {
        &self.leadership
    }
}

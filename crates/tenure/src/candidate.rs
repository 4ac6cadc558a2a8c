//! The candidate: campaigns, leads, resigns.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use tenure_core::lease::keeper::{EndReason, TaskEnd};
use tenure_core::{CandidateId, ElectionName, Epoch};
use tokio::sync::{Mutex, MutexGuard, oneshot};

use crate::clock;
use crate::config::Config;
use crate::driver::{self, Command, DriverHandle};
use crate::leadership::Leadership;
use crate::observe::Observer;
use crate::store::{StoreClient, Transport};
use crate::task::TaskResult;
use crate::term::TermState;

/// A process that competes in one election.
///
/// Renewals and the watchdog run on a thread of their own, so neither a blocked runtime nor a busy
/// one delays them. A candidate competes once at a time: [`run_while_leader`](Self::run_while_leader)
/// and [`campaign`](Self::campaign) wait for each other.
#[derive(Debug)]
pub struct Candidate {
    pub(crate) driver: DriverHandle,
    store: StoreClient,
    competing: Mutex<()>,
}

/// A term that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term {
    /// The term's number.
    pub epoch: Epoch,
    /// Why it ended.
    pub reason: EndReason,
    /// The error that the task returned, if it did.
    pub error: Option<String>,
}

/// Why a candidate can't start. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The machine has no clock that goes on while it is suspended.
    #[error("can't read the clock that leadership is counted on")]
    Clock(#[source] nix::Error),
    /// The operating system gives no random bits for lease ids.
    #[error("can't get random bits: {0}")]
    Random(getrandom::Error),
    /// The HTTP client can't be set up (TLS roots, for instance).
    #[error("can't set up the HTTP client")]
    Http(#[source] reqwest::Error),
    /// The driver's thread can't be started.
    #[error("can't start the driver thread")]
    Thread(#[source] std::io::Error),
}

/// Why a candidate stopped campaigning without being told to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The store refuses to deal with this candidate, which does not pass by itself.
    #[error("the store refuses this candidate: {0}")]
    Refused(String),
    /// The driver thread has died. A fault of this library; the term, if any, has ended.
    #[error("the driver thread has died")]
    DriverGone,
}

impl Candidate {
    /// Starts the candidate's driver. It does not ask the store anything: a store that is down when
    /// a worker starts is no reason for the worker to die.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: this machine can't run a candidate.
    // Async, so that a strategy may meet its peers here without a change to the API.
    #[allow(clippy::unused_async)]
    pub async fn connect(config: Config) -> Result<Self, ConnectError> {
        clock::read().map_err(ConnectError::Clock)?;
        getrandom::u64().map_err(ConnectError::Random)?;
        tracing::info!(election = %config.election, candidate = %config.candidate,
            timings = %config.timings, "candidate");
        let store = StoreClient::new(&config.servers).map_err(ConnectError::Http)?;
        let transport = Transport::new(store.clone(), &config);
        let driver = driver::spawn(config, transport).map_err(ConnectError::Thread)?;
        Ok(Self {
            driver,
            store,
            competing: Mutex::new(()),
        })
    }

    /// The election that it competes in.
    #[must_use]
    pub fn election(&self) -> &ElectionName {
        &self.driver.config.election
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &CandidateId {
        &self.driver.config.candidate
    }

    /// Runs `task` whenever this candidate leads, until `shutdown` completes.
    ///
    /// A term ends when the lease is lost, when the task returns, fails or panics, or at shutdown.
    /// Then the task is told to stop ([`Leadership::lost`]), has the stop grace to do so, and is
    /// aborted after it; the lease is released when the task has ended, and only then. After a term
    /// the candidate campaigns again, after the cool-down if its task ended the term. Two runs of
    /// the task never overlap.
    ///
    /// # Errors
    ///
    /// [`RunError`]: the store refuses this candidate. A store that can't be reached is no error;
    /// the candidate goes on trying.
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
        tokio::pin!(shutdown);
        let competing = self.competing.lock().await;
        while let Some(term) = self
            .one_term(&competing, shutdown.as_mut(), &mut task)
            .await?
        {
            if term.reason == EndReason::ShutDown {
                break;
            }
        }
        Ok(())
    }

    /// Runs `task` for one term and returns how that ended; `None` if `shutdown` completed before
    /// this candidate led. Everything else is as in [`run_while_leader`](Self::run_while_leader).
    ///
    /// # Errors
    ///
    /// [`RunError`]: the store refuses this candidate.
    pub async fn run_one_term<S, F, Fut>(
        &self,
        shutdown: S,
        mut task: F,
    ) -> Result<Option<Term>, RunError>
    where
        S: Future<Output = ()>,
        F: FnMut(Leadership) -> Fut,
        Fut: Future<Output: TaskResult> + Send + 'static,
    {
        tokio::pin!(shutdown);
        let competing = self.competing.lock().await;
        self.one_term(&competing, shutdown, &mut task).await
    }

    /// Competes until this candidate leads, and returns the term as a guard. The term ends when the
    /// guard is dropped or resigned; it is lost ([`Leadership::lost`]) when renewals fail.
    ///
    /// Dropping the future gives the campaign up.
    ///
    /// # Errors
    ///
    /// [`RunError`]: the store refuses this candidate.
    pub async fn campaign(&self) -> Result<LeadershipGuard<'_>, RunError> {
        let competing = self.competing.lock().await;
        let leadership = self.win().await?;
        Ok(LeadershipGuard {
            leadership,
            _competing: competing,
        })
    }

    /// Ends the term that is on, if there is one, and gives a campaign up.
    pub async fn resign(&self) {
        let (done, gone) = oneshot::channel();
        if self.driver.command(Command::ResignAny(done)) {
            let _ = gone.await;
        }
    }

    /// The term that is on, if this process leads *now*: for code that did not get the
    /// [`Leadership`] from the task, such as a request handler.
    #[must_use]
    pub fn leadership(&self) -> Option<Leadership> {
        let term = self.driver.terms.borrow().clone()?;
        let leadership = Leadership {
            term,
            driver: self.driver.clone(),
        };
        leadership.is_valid().then_some(leadership)
    }

    /// Watches who leads the election, from now on.
    #[must_use]
    pub fn observe(&self) -> Observer {
        Observer::new(self.store.clone(), self.election().clone())
    }

    async fn one_term<S, F, Fut>(
        &self,
        _competing: &MutexGuard<'_, ()>,
        mut shutdown: std::pin::Pin<&mut S>,
        task: &mut F,
    ) -> Result<Option<Term>, RunError>
    where
        S: Future<Output = ()>,
        F: FnMut(Leadership) -> Fut,
        Fut: Future<Output: TaskResult> + Send + 'static,
    {
        let leadership = tokio::select! {
            biased;
            () = shutdown.as_mut() => {
                self.resign().await;
                return Ok(None);
            }
            leadership = self.win() => leadership?,
        };
        let failure = start(task(leadership.clone()), &leadership);
        // If the caller drops this future the term must end, too.
        let resign_on_drop = ResignOnDrop(&leadership);
        let mut ended = leadership.term.ended.subscribe();
        let reason = tokio::select! {
            biased;
            reason = until_ended(&mut ended) => reason,
            () = shutdown => {
                leadership.driver.command(Command::Resign {
                    term: leadership.epoch(),
                    reason: EndReason::ShutDown,
                });
                until_ended(&mut ended).await
            }
        };
        std::mem::forget(resign_on_drop);
        let error = failure.await.ok();
        Ok(Some(Term {
            epoch: leadership.epoch(),
            reason,
            error,
        }))
    }

    async fn win(&self) -> Result<Leadership, RunError> {
        let (sender, won) = oneshot::channel();
        if !self.driver.command(Command::Campaign(sender)) {
            return Err(RunError::DriverGone);
        }
        let give_up_on_drop = GiveUpOnDrop(&self.driver);
        let won = won.await;
        std::mem::forget(give_up_on_drop);
        let term: Arc<TermState> = won
            .map_err(|_| RunError::DriverGone)?
            .map_err(RunError::Refused)?;
        Ok(Leadership {
            term,
            driver: self.driver.clone(),
        })
    }
}

/// Runs the task on the caller's runtime, and tells the driver when it is gone. The receiver gets
/// the task's error, if it returns one.
fn start<Fut>(task: Fut, leadership: &Leadership) -> oneshot::Receiver<String>
where
    Fut: Future<Output: TaskResult> + Send + 'static,
{
    let (failed, failure) = oneshot::channel();
    let running = tokio::spawn(task);
    leadership.term.set_task(running.abort_handle());
    let leadership = leadership.clone();
    tokio::spawn(async move {
        let end = match running.await.map(TaskResult::into_result) {
            Ok(Ok(())) => TaskEnd::Returned,
            Ok(Err(error)) => {
                tracing::warn!(election = %leadership.election(), epoch = %leadership.epoch(),
                    error, "the task has failed");
                let _ = failed.send(error);
                TaskEnd::Failed
            }
            Err(error) if error.is_panic() => TaskEnd::Panicked,
            Err(_) => TaskEnd::Aborted,
        };
        // However the term ends, the driver learns here, and only here, that the task is gone: it
        // releases after this, never before.
        leadership.driver.command(Command::TaskEnded {
            term: leadership.epoch(),
            end,
        });
    });
    failure
}

async fn until_ended(ended: &mut tokio::sync::watch::Receiver<Option<EndReason>>) -> EndReason {
    match ended.wait_for(Option::is_some).await {
        Ok(reason) => reason.unwrap_or(EndReason::Resigned),
        Err(_) => EndReason::RenewDeadline,
    }
}

struct ResignOnDrop<'a>(&'a Leadership);

impl Drop for ResignOnDrop<'_> {
    fn drop(&mut self) {
        self.0.resign();
    }
}

struct GiveUpOnDrop<'a>(&'a DriverHandle);

impl Drop for GiveUpOnDrop<'_> {
    fn drop(&mut self) {
        self.0.command(Command::GiveUp);
    }
}

/// A term that lasts as long as its holder keeps it, or until it is lost.
///
/// The holder is the task here: the term has ended for the store only when the guard is gone. A
/// guard that is kept past the hard stop is an overrun.
#[must_use = "dropping the guard resigns"]
pub struct LeadershipGuard<'a> {
    leadership: Leadership,
    _competing: MutexGuard<'a, ()>,
}

impl LeadershipGuard<'_> {
    /// Ends the term and waits until the lease is released (or can't be).
    pub async fn resign(self) -> EndReason {
        let mut ended = self.leadership.term.ended.subscribe();
        self.end();
        until_ended(&mut ended).await
    }

    fn end(&self) {
        let term = self.leadership.epoch();
        self.leadership.resign();
        self.leadership.driver.command(Command::TaskEnded {
            term,
            end: TaskEnd::Returned,
        });
    }
}

impl Deref for LeadershipGuard<'_> {
    type Target = Leadership;

    fn deref(&self) -> &Leadership {
        &self.leadership
    }
}

impl Drop for LeadershipGuard<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for LeadershipGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeadershipGuard")
            .field(&self.leadership.epoch())
            .finish()
    }
}

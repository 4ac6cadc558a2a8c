//! The candidate: campaigns, leads, resigns.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use tenure_core::lease::candidate::EndReason;
use tenure_core::{CandidateId, ElectionName, Epoch};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::task::JoinError;

use crate::clock::Clock;
use crate::config::Config;
use crate::health::HealthCheck;
use crate::leadership::Leadership;
use crate::observe::{Observer, Source};
use crate::renewer::{ConnectError, Renewer};
use crate::runtime::{Command, DriverHandle};
use crate::task::TaskResult;
use crate::term_guard::{Task, TermGuard};

/// A process that competes in one election.
///
/// Renewals and the watchdog run on a thread of their own, so neither a blocked runtime nor a busy
/// one delays them. A candidate competes once at a time: [`run_while_leader`](Self::run_while_leader)
/// and [`campaign`](Self::campaign) wait for each other.
///
/// The thread ends when the candidate is dropped and nothing uses its last term any more. It gives
/// the lease up before, but nobody waits for that: a process that ends right after the drop may leave
/// a lease behind that has to expire. To be sure, complete `shutdown` of
/// [`run_while_leader`](Self::run_while_leader), or await [`resign`](Self::resign).
#[derive(Debug)]
pub struct Candidate {
    pub(crate) driver: DriverHandle,
    source: Source,
    competing: Arc<Mutex<()>>,
}

/// A term that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term {
    /// The term's number.
    pub epoch: Epoch,
    /// Why it ended.
    pub reason: EndReason,
    /// The error that the task returned, or the message that it panicked with.
    pub error: Option<String>,
}

/// Why a candidate stopped campaigning without being told to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The store refuses to deal with this candidate, which does not pass by itself.
    #[error("the store refuses this candidate: {0}")]
    Refused(String),
    /// This member can't take part in the election among peers any more: another process has its number,
    /// or the epochs are used up. It says who has seen that, and what would be right.
    #[error("this member takes no part in the election: {0}")]
    Barred(String),
    /// The driver thread has died. A fault of this library; the term, if any, has ended.
    #[error("the driver thread has died")]
    DriverGone,
}

impl Candidate {
    pub(crate) fn new(driver: DriverHandle, source: Source) -> Self {
        Self {
            driver,
            source,
            competing: Arc::default(),
        }
    }

    /// Starts the candidate's driver. It does not ask the store anything: a store that is down when
    /// a worker starts is no reason for the worker to die. Among peers it listens from now on, and
    /// votes as long as the candidate lives, whether it competes or not.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: this machine can't run a candidate.
    // Async, so that a strategy may meet its peers here without a change to the API.
    #[allow(clippy::unused_async)]
    pub async fn connect(config: Config) -> Result<Self, ConnectError> {
        Renewer::start()?.candidate(config)
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
        let _competing = self.competing.lock().await;
        while let Next::GoOn(_) = self.one_term(shutdown.as_mut(), &mut task).await? {}
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
        task: F,
    ) -> Result<Option<Term>, RunError>
    where
        S: Future<Output = ()>,
        F: FnOnce(Leadership) -> Fut,
        Fut: Future<Output: TaskResult> + Send + 'static,
    {
        tokio::pin!(shutdown);
        let _competing = self.competing.lock().await;
        match self.one_term(shutdown, task).await? {
            Next::GoOn(term) => Ok(Some(term)),
            Next::ShutDown(term) => Ok(term),
        }
    }

    /// Competes until this candidate leads, and returns the term as a guard. The term ends when the
    /// guard is dropped or resigned; it is lost ([`Leadership::lost`]) when renewals fail.
    ///
    /// Dropping the future gives the campaign up.
    ///
    /// # Errors
    ///
    /// [`RunError`]: the store refuses this candidate.
    pub async fn campaign(&self) -> Result<LeadershipGuard, RunError> {
        let competing = self.competing.clone().lock_owned().await;
        let in_use = self.win().await?;
        Ok(LeadershipGuard {
            leadership: in_use.leadership(),
            in_use,
            competing,
        })
    }

    /// Ends the term that is on, if there is one: its task is told to stop. Waits until that has
    /// ended and the lease is released, or can't be.
    ///
    /// A campaign goes on, and [`run_while_leader`](Self::run_while_leader) campaigns again; those
    /// end with their `shutdown`, or when their future is dropped.
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
        let leadership = Leadership::new(term, &self.driver);
        leadership.is_valid().then_some(leadership)
    }

    /// Watches who leads the election, from now on.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime: it watches in a task of it.
    #[must_use]
    pub fn observe(&self) -> Observer {
        let lease = self.driver.config.timings.lease_duration();
        Observer::new(&self.source, self.election().clone(), lease)
    }

    async fn one_term<S, F, Fut>(
        &self,
        mut shutdown: Pin<&mut S>,
        task: F,
    ) -> Result<Next, RunError>
    where
        S: Future<Output = ()>,
        F: FnOnce(Leadership) -> Fut,
        Fut: Future<Output: TaskResult> + Send + 'static,
    {
        let in_use = tokio::select! {
            biased;
            () = shutdown.as_mut() => {
                self.settle().await;
                return Ok(Next::ShutDown(None));
            }
            in_use = self.win() => in_use?,
        };
        let leadership = in_use.leadership();
        // If the caller drops this future the term must end, too.
        let resign_on_drop = ResignOnDrop(&leadership);
        // It runs on the caller's runtime. Should making the task panic, the term is dropped here.
        let running = tokio::spawn(Task::new(task(leadership.clone()), in_use));
        leadership.term.set_task(running.abort_handle());
        if let Some(check) = &self.driver.config.health_check {
            let clock = self.driver.clock.clone();
            tokio::spawn(look_after(leadership.clone(), check.clone(), clock));
        }
        let mut ended = leadership.term.ended.subscribe();
        let (reason, shut_down) = tokio::select! {
            biased;
            reason = until_ended(&mut ended) => (reason, false),
            () = shutdown => {
                leadership.end(EndReason::ShutDown);
                (until_ended(&mut ended).await, true)
            }
        };
        // The term has ended because the task has. Only if the driver died it may still be going.
        let error = running.await.map_or_else(panic_message, Result::err);
        std::mem::forget(resign_on_drop);
        let epoch = leadership.epoch();
        let term = Term {
            epoch,
            reason,
            error,
        };
        Ok(if shut_down {
            Next::ShutDown(Some(term))
        } else {
            Next::GoOn(term)
        })
    }

    async fn win(&self) -> Result<TermGuard, RunError> {
        let (sender, won) = oneshot::channel();
        if !self.driver.command(Command::Campaign(sender)) {
            return Err(RunError::DriverGone);
        }
        let give_up_on_drop = GiveUpOnDrop(&self.driver);
        let won = won.await;
        std::mem::forget(give_up_on_drop);
        won.map_err(|_| RunError::DriverGone)?
    }

    /// Lets the driver's thread panic.
    #[cfg(test)]
    pub(crate) fn plant_panic(&self) {
        self.driver.command(Command::Panic);
    }

    /// Waits until what was given up is given back.
    async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        if self.driver.command(Command::Settle(done)) {
            let _ = settled.await;
        }
    }
}

/// Asks after the task's health until the term ends, or ends it.
async fn look_after(leadership: Leadership, check: HealthCheck, clock: Clock) {
    let ill = loop {
        tokio::select! {
            _ = leadership.lost() => return,
            () = clock.sleep_until(clock.now() + check.interval) => {}
        }
        tokio::select! {
            _ = leadership.lost() => return,
            answer = check.ask() => if let Err(error) = answer { break error },
            () = clock.sleep_until(clock.now() + check.timeout) => {
                break format!("no answer within {:?}", check.timeout);
            }
        }
    };
    tracing::warn!(election = %leadership.election(), epoch = %leadership.epoch(), error = ill,
        "the task is not well");
    leadership.end(EndReason::Unhealthy);
}

/// What follows a try at one term.
enum Next {
    /// The term is over, and there may be another.
    GoOn(Term),
    /// `shutdown` has completed and must not be asked again; the term, if there was one, is over,
    /// for whatever reason it began to end.
    ShutDown(Option<Term>),
}

/// What the task panicked with, if it did and that was text.
fn panic_message(error: JoinError) -> Option<String> {
    let panic: Box<dyn Any + Send> = error.try_into_panic().ok()?;
    panic
        .downcast::<String>()
        .map(|message| *message)
        .or_else(|panic| panic.downcast::<&str>().map(|message| message.to_string()))
        .ok()
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
/// guard that is kept past the hard stop is an overrun. While it lives its candidate can't campaign
/// again.
#[must_use = "dropping the guard resigns"]
pub struct LeadershipGuard {
    leadership: Leadership,
    // Fields are dropped in this order: the term ends before the next campaign begins.
    in_use: TermGuard,
    competing: OwnedMutexGuard<()>,
}

impl LeadershipGuard {
    /// Ends the term, waits until the lease is released (or can't be), and says why the term ended:
    /// it may have been lost before.
    pub async fn resign(self) -> EndReason {
        let Self {
            leadership,
            in_use,
            competing,
        } = self;
        let mut ended = leadership.term.ended.subscribe();
        drop(in_use);
        let reason = until_ended(&mut ended).await;
        drop(competing);
        reason
    }
}

impl Deref for LeadershipGuard {
    type Target = Leadership;

    fn deref(&self) -> &Leadership {
        &self.leadership
    }
}

impl fmt::Debug for LeadershipGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeadershipGuard")
            .field(&self.leadership.epoch())
            .finish()
    }
}

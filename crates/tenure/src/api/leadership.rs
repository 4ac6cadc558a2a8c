//! The handle through which a leader's task uses its term.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::lease::candidate::EndReason;
use tenure_core::{CandidateId, ElectionName, Epoch};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::base::metadata::check_metadata;
#[cfg(feature = "peers")]
use crate::base::term::TermQuorum;
use crate::election::error::{NotLeading, ProclaimError};
use crate::election::term::parts::{Part, PartKind, run_part};
use crate::election::term::{TermCommand, TermState};

/// A handle to a term, for its task. Clones are cheap and refer to the same term. A handle that
/// outlives the term always reports that the term is over. A handle keeps neither the lease nor the
/// candidate alive.
#[derive(Clone, Debug)]
pub struct Leadership {
    pub(crate) term: Arc<TermState>,
}

impl Leadership {
    pub(crate) fn of(term: &Arc<TermState>) -> Self {
        Self { term: term.clone() }
    }

    /// Returns the term's epoch, which is **the fencing token**. Send it with every write, to a
    /// receiver that refuses smaller epochs than the greatest one it has seen.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.term.epoch
    }

    /// Returns the election that the candidate leads.
    #[must_use]
    pub fn election(&self) -> &ElectionName {
        &self.term.config.election
    }

    /// Returns the candidate that leads.
    #[must_use]
    pub fn candidate(&self) -> &CandidateId {
        &self.term.config.candidate
    }

    /// Returns the W3C trace context of the beginning of the term, as the value of a header
    /// `traceparent`. The task can link its spans to it. `None` unless the application has set
    /// [hooks](crate::trace::set_hooks) to its tracing system.
    #[must_use]
    pub fn context(&self) -> Option<&str> {
        self.term.traceparent.as_deref()
    }

    /// Returns whether this process leads *now*. The method compares two numbers and sends no
    /// request. Call it before every unit of work, because an earlier result may be outdated after
    /// a pause.
    ///
    /// The result shows whether the lease is held, not whether the task may continue. After the
    /// candidate has resigned, or while it shuts down, the result stays true while the task stops,
    /// because the lease is renewed until the task has ended. The task can use this time to finish
    /// a unit of work, or to record its position. [`lost`](Self::lost) completes when the task must
    /// stop.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns the epoch if this process leads now.
    ///
    /// # Errors
    ///
    /// [`NotLeading`] if the term is over. The task must stop.
    pub fn check(&self) -> Result<Epoch, NotLeading> {
        if self.is_valid() {
            Ok(self.epoch())
        } else {
            Err(NotLeading(self.epoch()))
        }
    }

    /// Returns how long this process continues to lead if no further renewal succeeds.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.term.until(&self.term.valid_until)
    }

    /// Returns the time until the task is aborted. Each successful renewal extends the time, unless
    /// the term is already ending.
    #[must_use]
    pub fn time_to_stop(&self) -> Duration {
        self.term.until(&self.term.stop_by)
    }

    /// Returns whether renewals are failing now. A later renewal may still succeed and keep the
    /// term.
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        *self.term.at_risk.borrow()
    }

    /// Returns the voters that carry the term now, if the candidate has a
    /// [fallback](crate::Config::with_fallback); `None` without one.
    #[cfg(feature = "peers")]
    #[must_use]
    pub fn carried_by(&self) -> Option<TermQuorum> {
        *self.term.quorum.borrow()
    }

    /// Waits until renewals are failing or the task must stop. From then on, the task should start
    /// no new work. Cancel safe: it only waits.
    pub async fn at_risk(&self) {
        let mut at_risk = self.term.at_risk.subscribe();
        tokio::select! {
            // `self` keeps the term alive, and the term owns the sender.
            _ = at_risk.wait_for(|at_risk| *at_risk) => {}
            () = self.term.lost.cancelled() => {}
        }
    }

    /// Waits until the task must stop, and returns the reason. After that, the task has the stop
    /// grace to end. Cancel safe: it only waits, and completes at once after the request to stop.
    pub async fn lost(&self) -> EndReason {
        self.term.lost.cancelled().await;
        *self.term.reason.get().unwrap_or(&EndReason::Resigned)
    }

    /// Returns a token that is cancelled when the task must stop. The task can pass it to the parts
    /// that it starts.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.term.lost.child_token()
    }

    /// Requests the end of the term: the task is notified, and the lease is released after the task
    /// has ended. The store then grants the lease to the next waiter. This has no effect after the
    /// term.
    pub fn resign(&self) {
        self.end(EndReason::Resigned);
    }

    /// Like [`resign`](Self::resign), but for one lease duration (10 minutes at most) only `to` can
    /// acquire the lease. If that candidate does not acquire it, the next waiter gets it. If `to`
    /// does not wait for the lease when the task has ended, the lease is released as by `resign`. The
    /// lease of a blob
    /// ([`Strategy::AzureBlob`](crate::config::Strategy::AzureBlob)) can't be handed over. In that
    /// case the term continues, and the log contains the reason.
    pub fn hand_over(&self, to: CandidateId) {
        self.term.command(TermCommand::HandOver(to));
    }

    /// Publishes metadata of the leader to all observers ([`Observed`](crate::observe::Observed)),
    /// in place of earlier ones: up to 4 KiB of keys and values. The metadata apply to this term.
    /// Among peers, the method does not wait until the other members have received the metadata:
    /// the leader sends them at once, and again with each renewal.
    ///
    /// # Errors
    ///
    /// [`ProclaimError`]: the term is over, the metadata are too large, or the store did not accept
    /// them. Except in the first case, the term continues.
    pub async fn proclaim(&self, metadata: BTreeMap<String, String>) -> Result<(), ProclaimError> {
        check_metadata(&metadata).map_err(ProclaimError::Metadata)?;
        let (done, proclaimed) = oneshot::channel();
        let over = ProclaimError::NotLeading(NotLeading(self.epoch()));
        let command = TermCommand::Proclaim(metadata.clone(), done);
        if !self.term.command(command) {
            return Err(over);
        }
        proclaimed.await.unwrap_or(Err(over))?;
        self.term.proclaimed.send_replace(Some(metadata));
        Ok(())
    }

    /// Reports progress of the task. With a progress deadline in the [`Timings`](crate::Timings), a
    /// task that does not report in time counts as blocked, and its term ends. A call costs one
    /// atomic write.
    pub fn report_progress(&self) {
        self.term.report_progress();
    }

    /// Keeps the lease from being released until the returned value is dropped. Use it for work
    /// outside of the task, such as a thread or a request handler.
    ///
    /// An abort does not reach such work: it must look at [`lost`](Self::lost) or
    /// [`cancellation`](Self::cancellation) itself. A hold that outlives the abort is an overrun
    /// ([`OnOverrun`](crate::OnOverrun)).
    ///
    /// # Errors
    ///
    /// [`NotLeading`] from the request to stop on.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(leadership: tenure::Leadership) -> Result<(), tenure::NotLeading> {
    /// let hold = leadership.hold()?;
    /// std::thread::spawn(move || {
    ///     while !leadership.cancellation().is_cancelled() { /* a unit of work */ }
    ///     drop(hold);
    /// });
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn hold(&self) -> Result<Hold, NotLeading> {
        let part = self.begin(PartKind::Hold, Location::caller());
        // The request to stop is checked last, so a hold that exists then was counted before it.
        let part = part.filter(|_| !self.term.lost.is_cancelled() && self.is_valid());
        part.map(Hold).ok_or_else(|| NotLeading(self.epoch()))
    }

    /// Runs a future as a part of the task, on the current tokio runtime. It is aborted with the
    /// task, and the lease is released only after it has ended. The handle returns `None` if it
    /// was aborted, or if the term was aborted before this call.
    ///
    /// When the task itself ends, the future is asked to stop ([`lost`](Self::lost)).
    ///
    /// # Cancel safety
    ///
    /// The future runs on if the handle is dropped, and remains a part of the task. It ends at
    /// [`JoinHandle::abort`].
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        match self.begin(PartKind::Future, Location::caller()) {
            Some(part) => tokio::spawn(run_part(future, part)),
            None => tokio::spawn(async { None }),
        }
    }

    /// Runs a closure as a part of the task, on a thread of tokio for blocking work. The lease is
    /// released only after the closure has ended.
    ///
    /// A closure can't be aborted. It should check
    /// `leadership.cancellation().is_cancelled()` between two steps. If it still runs after the
    /// abort, that is an overrun ([`OnOverrun`](crate::OnOverrun)). A closure that waits for a free
    /// thread counts as running.
    ///
    /// If the term was aborted before this call, the closure does not run, and the handle returns
    /// an error that [is cancelled](tokio::task::JoinError::is_cancelled).
    ///
    /// # Cancel safety
    ///
    /// The closure runs on if the handle is dropped, and remains a part of the task.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce(&Self) -> R + Send + 'static,
        R: Send + 'static,
    {
        let Some(part) = self.begin(PartKind::Closure, Location::caller()) else {
            let refused = tokio::spawn(std::future::pending());
            refused.abort();
            return refused;
        };
        let leadership = self.clone();
        tokio::task::spawn_blocking(move || {
            let output = f(&leadership);
            drop(part);
            output
        })
    }

    /// Begins a part of the task, unless the term was aborted or is over.
    fn begin(&self, kind: PartKind, place: &'static Location<'static>) -> Option<Part> {
        let part = Part::begin(&self.term, kind, place);
        part.filter(|_| !self.term.aborted.is_cancelled())
    }

    pub(crate) fn end(&self, reason: EndReason) {
        self.term.command(TermCommand::Resign(reason));
    }
}

/// A hold on a lease: the lease is not released while this value exists. See
/// [`Leadership::hold`].
#[derive(Debug)]
#[must_use = "the lease may be released as soon as the hold is dropped"]
pub struct Hold(#[expect(dead_code, reason = "its drop ends the hold")] Part);

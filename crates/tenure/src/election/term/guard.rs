//! The guard of a term in use.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;
use tenure_core::lease::candidate::TaskEnd;
use tracing::Span;

use crate::base::task::TaskResult;
use crate::election::term::parts::{Part, until_aborted};
use crate::election::term::{DriverHandle, TermCommand, TermState};

/// A term in use. Each term has one guard, from its beginning. The caller that campaigned for the
/// term gets the guard, and drops it when its task has ended. The other parts of the task, such as
/// holds, are then asked to stop. The driver releases the lease only after all parts have ended.
///
/// Because the drop ends the use of the term, every term ends, even if a campaign is given up at
/// the moment when it wins, if the task panics, or if the task's runtime is shut down.
#[derive(Debug)]
pub(crate) struct TermGuard {
    part: Part,
    end: TaskEnd,
    /// The span of the beginning of the term, until the term is in use.
    begin: Span,
}

impl TermGuard {
    pub(crate) fn new(term: Arc<TermState>, driver: Arc<DriverHandle>, begin: Span) -> Self {
        Self {
            part: Part::first(term, driver),
            end: TaskEnd::Aborted,
            begin,
        }
    }

    pub(crate) const fn term(&self) -> &Arc<TermState> {
        &self.part.term
    }

    /// Ends the span of the beginning of the term: the term is in use from now on.
    pub(crate) fn end_begin(&mut self) {
        self.begin = Span::none();
    }
}

impl Drop for TermGuard {
    fn drop(&mut self) {
        // The part is dropped after this.
        let ended = TermCommand::TaskEnded(self.end);
        self.term().command(ended);
    }
}

/// Runs a leader's task until it ends or the term aborts it. At every possible end of this
/// function, the task is dropped before the guard, so the task has ended before the driver receives
/// its end.
pub(crate) async fn run_task(
    task: impl Future<Output: TaskResult>,
    mut guard: TermGuard,
) -> Result<(), String> {
    guard.end_begin();
    guard.part.become_task();
    let term = guard.term().clone();
    // A panic is resumed below, so no code reads the state that the panic may have left
    // inconsistent.
    let task = AssertUnwindSafe(task).catch_unwind();
    let Some(ended) = until_aborted(task, &guard.part).await else {
        return Ok(());
    };
    let result = match ended {
        Ok(result) => result.into_result(),
        Err(panic) => {
            guard.end = TaskEnd::Panicked;
            resume_unwind(panic);
        }
    };
    guard.end = match &result {
        Ok(()) => TaskEnd::Returned,
        Err(error) => {
            let (election, candidate) = (&term.config.election, &term.config.candidate);
            tracing::warn!(%election, %candidate, epoch = term.epoch.get(), error, "the task has failed");
            TaskEnd::Failed
        }
    };
    result
}

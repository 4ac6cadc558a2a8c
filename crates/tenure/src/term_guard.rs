//! The guard of a term in use.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;
use tenure_core::lease::candidate::TaskEnd;

use crate::leadership::Leadership;
use crate::runtime::{DriverHandle, TermCommand};
use crate::task::TaskResult;
use crate::term::TermState;

/// A term in use. Each term has one guard, from its beginning on: the caller that campaigned for it
/// gets it, and drops it when nothing works under the term any more. The driver releases the lease
/// after that, never before.
///
/// Because the drop ends the use, a term can't be left behind: not by a campaign that was given up
/// at the moment it won, nor by a task that panicked or whose runtime was shut down.
#[derive(Debug)]
pub(crate) struct TermGuard {
    pub(crate) leadership: Leadership,
    /// The candidate stays as long as its term is in use.
    _driver: Arc<DriverHandle>,
    end: TaskEnd,
}

impl TermGuard {
    pub(crate) const fn new(term: Arc<TermState>, driver: Arc<DriverHandle>) -> Self {
        Self {
            leadership: Leadership { term },
            _driver: driver,
            end: TaskEnd::Aborted,
        }
    }
}

impl Drop for TermGuard {
    fn drop(&mut self) {
        let ended = TermCommand::TaskEnded(self.end);
        self.leadership.term.command(ended);
    }
}

/// Runs a leader's task until it ends or the term aborts it. Wherever this stops, the task is
/// dropped before the guard: the task is gone before the driver learns it.
pub(crate) async fn run_task(
    task: impl Future<Output: TaskResult>,
    mut guard: TermGuard,
) -> Result<(), String> {
    let term = guard.leadership.term.clone();
    // A panic goes on from here: no code reads the state that it broke.
    let task = AssertUnwindSafe(task).catch_unwind();
    let ended = tokio::select! {
        // The abort comes first: a task that is always ready must not hide it.
        biased;
        () = term.aborted.cancelled() => return Ok(()),
        ended = task => ended,
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
            let (election, epoch) = (&term.config.election, term.epoch);
            tracing::warn!(%election, %epoch, error, "the task has failed");
            TaskEnd::Failed
        }
    };
    result
}

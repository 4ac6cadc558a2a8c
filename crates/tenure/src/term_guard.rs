//! The guard of a term in use.

use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tenure_core::lease::candidate::TaskEnd;

use crate::leadership::Leadership;
use crate::runtime::{Command, DriverHandle};
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
    term: Arc<TermState>,
    driver: DriverHandle,
    end: TaskEnd,
}

impl TermGuard {
    pub(crate) const fn new(term: Arc<TermState>, driver: DriverHandle) -> Self {
        let end = TaskEnd::Aborted;
        Self { term, driver, end }
    }

    /// The handle for its task.
    pub(crate) fn leadership(&self) -> Leadership {
        Leadership::new(self.term.clone(), &self.driver)
    }
}

impl Drop for TermGuard {
    fn drop(&mut self) {
        let (term, end) = (self.term.epoch, self.end);
        self.driver.command(Command::TaskEnded { term, end });
    }
}

/// A leader's task with the term that it uses.
pub(crate) struct Task<Fut> {
    // Fields are dropped in this order: the task is gone before the driver learns it.
    task: Pin<Box<Fut>>,
    guard: TermGuard,
}

impl<Fut> Task<Fut> {
    pub(crate) fn new(task: Fut, guard: TermGuard) -> Self {
        let task = Box::pin(task);
        Self { task, guard }
    }
}

impl<Fut: Future<Output: TaskResult>> Future for Task<Fut> {
    type Output = Result<(), String>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { task, guard } = self.get_mut();
        // The panic goes on from here: no code reads the state that it broke.
        let polled = panic::catch_unwind(AssertUnwindSafe(|| {
            task.as_mut().poll(context).map(TaskResult::into_result)
        }));
        let result = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => result,
            Err(panic) => {
                guard.end = TaskEnd::Panicked;
                panic::resume_unwind(panic);
            }
        };
        guard.end = match &result {
            Ok(()) => TaskEnd::Returned,
            Err(error) => {
                let (election, epoch) = (&guard.driver.config.election, guard.term.epoch);
                tracing::warn!(%election, %epoch, error, "the task has failed");
                TaskEnd::Failed
            }
        };
        Poll::Ready(result)
    }
}

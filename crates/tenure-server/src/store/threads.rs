//! The store's threads. One commits queued changes, one changes leases when they are due, and one
//! sends events to watchers.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tracing::error;

use super::{Inner, stopping};
use crate::engine::Engine;
use crate::panics;

/// The threads. Dropping this value ends them.
#[derive(Debug)]
pub(super) struct Threads {
    inner: Arc<Inner>,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    pub(super) fn start(inner: &Arc<Inner>, engine: Option<Engine>) -> io::Result<Self> {
        let threads = Self {
            inner: Arc::clone(inner),
            handles: Mutex::default(),
        };
        threads.spawn("tenure-timer", Inner::run_timer)?;
        threads.spawn("tenure-events", |inner| inner.events.dispatch())?;
        if let Some(engine) = engine {
            threads.spawn("tenure-commit", |inner| inner.run_commits(engine))?;
        }
        Ok(threads)
    }

    fn spawn(
        &self,
        name: &'static str,
        run: impl FnOnce(&Inner) + Send + 'static,
    ) -> io::Result<()> {
        let inner = Arc::clone(&self.inner);
        let thread = thread::Builder::new().name(name.into());
        let handle = thread.spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&inner))) {
                // Without this thread the store would no longer grant expired leases, send events,
                // or commit changes. The state that the thread left in memory is unknown, so the
                // thread is not restarted: the store ends, and its next start reads the durable
                // state.
                let error = panics::text(&*panic);
                error!(
                    thread = name,
                    error, "a thread of the store panicked; the store ends"
                );
                inner.fail();
            }
        })?;
        self.lock().push(handle);
        Ok(())
    }

    /// Commits queued changes and ends the threads. Blocks.
    pub(super) fn close(&self) {
        let inner = &self.inner;
        inner.stopping.cancel();
        let shards = inner.table.lock_all();
        let _ = inner.ended.set(match inner.member {
            Some(_) => inner.not_active(),
            None => stopping(),
        });
        inner.commit_queue.close();
        drop(shards);
        inner.timer.close();
        inner.events.close();
        let handles = std::mem::take(&mut *self.lock());
        for handle in handles {
            // The thread itself catches a panic.
            let _ = handle.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.close();
    }
}

impl Inner {
    /// Changes leases when they are due, until the timer is closed.
    fn run_timer(&self) {
        while let Some((due, turn)) = self.timer.next(&self.clock) {
            self.tick(due, turn);
        }
    }
}

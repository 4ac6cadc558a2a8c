//! A flag that ends the waits of a thread.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A flag that ends the waits of a thread, so that a server can stop while the service of the log
/// does not answer.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    is_set: Mutex<bool>,
    wake: Condvar,
}

impl Stop {
    /// Sets the flag.
    pub(crate) fn set(&self) {
        *self.lock() = true;
        self.wake.notify_all();
    }

    /// Returns whether the flag is set.
    pub(crate) fn is_set(&self) -> bool {
        *self.lock()
    }

    /// Waits for this long, or until the flag is set.
    pub(super) fn wait(&self, duration: Duration) {
        let until = Instant::now() + duration;
        let mut is_set = self.lock();
        while !*is_set {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let woken = self.wake.wait_timeout(is_set, left);
            is_set = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The last reload of a file.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The outcome of the last reload of a file, and the time of the last successful one.
#[derive(Debug)]
pub(crate) struct ReloadStatus {
    has_failed: AtomicBool,
    /// Milliseconds since 1970; zero if no reload has succeeded.
    succeeded_at: AtomicU64,
}

impl ReloadStatus {
    /// Creates the status of a file that was not read yet.
    pub(crate) const fn unread() -> Self {
        Self {
            has_failed: AtomicBool::new(false),
            succeeded_at: AtomicU64::new(0),
        }
    }

    /// Creates the status of a file that was read now.
    pub(crate) fn read_now() -> Self {
        let status = Self::unread();
        status.record(true);
        status
    }

    pub(crate) fn record(&self, has_succeeded: bool) {
        self.has_failed.store(!has_succeeded, Ordering::Relaxed);
        if has_succeeded {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
            let millis = since_1970.unwrap_or_default().as_millis();
            let millis = u64::try_from(millis).unwrap_or(u64::MAX);
            self.succeeded_at.store(millis, Ordering::Relaxed);
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Returns the time of the last successful reload.
    pub(crate) fn succeeded_at(&self) -> Option<SystemTime> {
        let millis = self.succeeded_at.load(Ordering::Relaxed);
        (millis > 0).then(|| UNIX_EPOCH + Duration::from_millis(millis))
    }
}

impl Clone for ReloadStatus {
    fn clone(&self) -> Self {
        let succeeded_at = self.succeeded_at.load(Ordering::Relaxed);
        Self {
            has_failed: AtomicBool::new(self.has_failed()),
            succeeded_at: AtomicU64::new(succeeded_at),
        }
    }
}

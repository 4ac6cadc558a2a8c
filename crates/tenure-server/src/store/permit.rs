//! The right to wait or to watch, which the store grants only a limited number of times.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One of a limited number of permits. Dropping it frees the permit.
#[derive(Debug)]
pub(super) struct Permit(Arc<AtomicUsize>);

impl Permit {
    /// Takes a permit, if fewer than `most` are in use.
    ///
    /// # Errors
    ///
    /// `most` permits or more are in use. The error is their number.
    pub(super) fn acquire(taken: &Arc<AtomicUsize>, most: usize) -> Result<Self, usize> {
        let one_more = |count| (count < most).then_some(count + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)?;
        Ok(Self(Arc::clone(taken)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

//! The right to wait or to watch, of which the store has a limited number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One of the permits that are counted together. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Permit(Arc<AtomicUsize>);

impl Permit {
    /// # Errors
    ///
    /// `most` permits or more are taken: how many.
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

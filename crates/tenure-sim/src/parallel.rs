//! Work on all processors.

use std::iter;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Maps the elements on all processors, and keeps their order.
pub fn map_parallel<T, R: Send>(
    of: impl IntoIterator<Item = T, IntoIter: Send>,
    that: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let left = Mutex::new(of.into_iter().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut results = thread::scope(|scope| {
        let map = || {
            let mapped = iter::from_fn(&next).map(|(place, one)| (place, that(one)));
            mapped.collect::<Vec<_>>()
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(map)).collect();
        let results = running.into_iter().flat_map(|it| match it.join() {
            Ok(results) => results,
            Err(panic) => resume_unwind(panic),
        });
        results.collect::<Vec<_>>()
    });
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

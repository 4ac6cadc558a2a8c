//! The times at which leases are due: those that a request waits for or a client watches.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::Instant;

use crate::clock::Clock;
use crate::model::LeaseKey;

/// The time for which the thread sleeps while there is no key. Arming a key wakes it.
const IDLE: Duration = Duration::from_secs(3600);

/// Keys of leases, each with the time at which the lease is due.
///
/// The timer has only leases with waiters or long polls, leases whose waiters have left a short time
/// ago, and leases that a client watches or watched recently (see [`Scans`](crate::scans::Scans));
/// expiry itself needs no timer. A time may be too early, because renewals move the expiry and do
/// not arm the timer. That is harmless: a tick that is too early arms the timer again. A key has one
/// time, so requests that come and go can't fill the timer.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    state: Mutex<State>,
    earlier: Condvar,
}

#[derive(Debug, Default)]
struct State {
    due: BTreeSet<(Instant, LeaseKey)>,
    times: HashMap<LeaseKey, Instant>,
    closing: bool,
}

impl Timer {
    /// Makes `key` due at this time or earlier.
    pub(crate) fn arm(&self, at: Instant, key: LeaseKey) {
        let mut state = self.lock();
        match state.times.get(&key).copied() {
            Some(sooner) if sooner <= at => return,
            Some(later) => drop(state.due.take(&(later, key.clone()))),
            None => {}
        }
        state.times.insert(key.clone(), at);
        let is_first = state.due.first().is_none_or(|(first, _)| at < *first);
        state.due.insert((at, key));
        drop(state);
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// Blocks until a key is due. Returns `None` when the timer is closed.
    pub(crate) fn next(&self, clock: &Clock) -> Option<LeaseKey> {
        let mut state = self.lock();
        while !state.closing {
            let left = match state.due.first() {
                Some((at, _)) => clock.until(*at),
                None => IDLE,
            };
            if left.is_zero() {
                let (_, key) = state.due.pop_first()?;
                state.times.remove(&key);
                return Some(key);
            }
            state = self
                .earlier
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        None
    }

    /// Ends the thread that waits in [`Timer::next`].
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.earlier.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Timer {
        /// Returns the number of keys.
        pub(crate) fn len(&self) -> usize {
            self.lock().due.len()
        }
    }

    #[test]
    fn keys_come_in_order_of_time_and_an_earlier_one_wakes_the_thread() {
        let (timer, clock) = (Timer::default(), Clock::start());
        let now = clock.now();
        timer.arm(now + Duration::from_secs(3600), LeaseKey::of_text("a/late"));
        std::thread::scope(|scope| {
            let next = scope.spawn(|| timer.next(&clock));
            timer.arm(
                now + Duration::from_millis(20),
                LeaseKey::of_text("a/early"),
            );
            assert_eq!(next.join().unwrap(), Some(LeaseKey::of_text("a/early")));
        });
        assert!(clock.now().since(now) >= Duration::from_millis(20));
        timer.close();
        assert_eq!(timer.next(&clock), None);
    }

    #[test]
    fn a_key_is_armed_once_for_the_earliest_time() {
        let (timer, clock) = (Timer::default(), Clock::start());
        let at = |nanos| Instant::from_nanos(nanos);
        for nanos in [3, 2, 1, 2, 3] {
            timer.arm(at(nanos), LeaseKey::of_text("a/b"));
        }
        assert_eq!(timer.lock().due.len(), 1);
        assert_eq!(timer.next(&clock), Some(LeaseKey::of_text("a/b")));
        let state = timer.lock();
        assert!(state.due.is_empty() && state.times.is_empty());
    }
}

//! Wakes leases that somebody waits for, when time alone changes them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tenure_core::Instant;

use crate::clock::Clock;
use crate::table::Key;

/// Keys, each with the time at which to look at it.
///
/// It knows only leases with waiters or long polls; expiry itself needs no timer. An entry may be
/// late (renewals move the expiry, nobody tells the timer) or twice: looking too early is harmless,
/// whoever looks arms the timer again.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    state: Mutex<State>,
    earlier: Condvar,
}

#[derive(Debug, Default)]
struct State {
    due: BinaryHeap<Reverse<(Instant, Key)>>,
    closing: bool,
}

impl Timer {
    /// Has `key` looked at when it is `at`.
    pub(crate) fn arm(&self, at: Instant, key: Key) {
        let mut state = self.lock();
        let is_first = state
            .due
            .peek()
            .is_none_or(|Reverse((first, _))| at < *first);
        state.due.push(Reverse((at, key)));
        drop(state);
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// Blocks until a key is due; `None` when the timer is closed.
    pub(crate) fn next(&self, clock: &Clock) -> Option<Key> {
        let mut state = self.lock();
        while !state.closing {
            let Some(Reverse((at, _))) = state.due.peek() else {
                state = self
                    .earlier
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = clock.until(*at);
            if left.is_zero() {
                return state.due.pop().map(|Reverse((_, key))| key);
            }
            state = self
                .earlier
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        None
    }

    /// Ends the one who waits in [`Timer::next`].
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
    use std::time::Duration;

    #[test]
    fn keys_come_in_order_of_time_and_an_earlier_one_is_not_slept_over() {
        let (timer, clock) = (Timer::default(), Clock::start());
        let now = clock.now();
        timer.arm(now + Duration::from_secs(3600), Key::of_text("a/late"));
        std::thread::scope(|scope| {
            let next = scope.spawn(|| timer.next(&clock));
            timer.arm(now + Duration::from_millis(20), Key::of_text("a/early"));
            assert_eq!(next.join().unwrap(), Some(Key::of_text("a/early")));
        });
        assert!(clock.now().since(now) >= Duration::from_millis(20));
        timer.close();
        assert_eq!(timer.next(&clock), None);
    }
}

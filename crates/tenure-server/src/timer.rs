//! The times at which time alone changes leases.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::Instant;

use crate::clock::Clock;

/// The time for which the thread sleeps while no lease is due. An earlier time wakes it.
const IDLE: Duration = Duration::from_secs(3600);

/// The number of ends without a waiting request that may be on their way to the disk. A request that comes
/// meanwhile waits for at most these, and each takes some 30 us.
pub(crate) const ENDS_AT_ONCE: usize = 128;

/// A time, and the hash of the key of the lease that is due at that time. Of a million leases two
/// have the same hash with a probability of 1 to 36 million. One of them may then end late, at its
/// next request.
type Due = (Instant, u64);

/// The next time at which time alone changes each lease: its term, its lock delay, its reservation
/// or a kept place in its queue ends.
///
/// A time may be too early, because a renewal does not touch the timer: the lease gets its next
/// time when this one has come. A lease has one time, so requests that come and go can't fill the
/// timer. The lease itself remembers this time (`armed`), and keeps it when it has come: a time that is
/// over counts as none.
///
/// Very many leases may end at once, for example those of a rack that has failed. An end for which
/// no request waits does not go before requests: only [`ENDS_AT_ONCE`] of them are in the commit
/// queue at a time, and the others stay here.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    due: BTreeSet<Due>,
    /// Terms that are over, and for whose end no request waits.
    ends: BTreeSet<Due>,
    /// The number of turns that ends have at present.
    turns: usize,
    /// No end gets a turn before this time.
    rest_until: Instant,
    closing: bool,
}

/// The turn of an end for which no request waits, until the end is durable or undone.
#[derive(Debug)]
pub(crate) struct Turn(Arc<Timer>);

impl Timer {
    /// Creates a timer with these times.
    pub(crate) fn of(due: Vec<Due>) -> Self {
        let timer = Self::default();
        timer.lock().due = due.into_iter().collect();
        timer
    }

    /// Makes the lease with this hash due at this time, or at its earlier time unless that is over.
    /// The caller holds the lock of the lease.
    pub(crate) fn arm(&self, armed: &mut Instant, hash: u64, at: Instant, now: Instant) {
        // If `next` has returned the lease meanwhile, its thread waits for the lock and arms it again.
        if now < *armed && *armed <= at {
            return;
        }
        let mut state = self.lock();
        state.forget((*armed, hash));
        *armed = at;
        state.due.insert((at, hash));
        let is_first = state.due.first() == Some(&(at, hash));
        drop(state);
        if is_first {
            self.wake.notify_one();
        }
    }

    /// Removes a lease.
    pub(crate) fn forget(&self, armed: Instant, hash: u64) {
        self.lock().forget((armed, hash));
    }

    /// Lets a lease whose term has ended at `at` wait for its turn, because no request waits for it.
    pub(crate) fn postpone(&self, armed: &mut Instant, hash: u64, at: Instant) {
        let mut state = self.lock();
        state.forget((*armed, hash));
        *armed = at;
        state.ends.insert((at, hash));
    }

    /// Gives no end a turn before this time.
    pub(crate) fn rest_until(&self, until: Instant) {
        self.lock().rest_until = until;
    }

    /// Blocks until a lease is due, or an end has its turn. Returns the hash of the lease, which then
    /// has no time; `None` when the timer is closed. The caller locks the lease and arms it again.
    pub(crate) fn next(self: &Arc<Self>, clock: &Clock) -> Option<(u64, Option<Turn>)> {
        let mut state = self.lock();
        while !state.closing {
            let now = clock.now();
            let next = state.due.first().map(|(at, _)| *at);
            if next.is_some_and(|at| at <= now) {
                let (_, hash) = state.due.pop_first()?;
                return Some((hash, None));
            }
            let has_end = state.turns < ENDS_AT_ONCE && !state.ends.is_empty();
            let turn_at = has_end.then_some(state.rest_until);
            if turn_at.is_some_and(|at| at <= now) {
                let (_, hash) = state.ends.pop_first()?;
                state.turns += 1;
                return Some((hash, Some(Turn(Arc::clone(self)))));
            }
            let next = next.into_iter().chain(turn_at).min();
            let left = next.map_or(IDLE, |at| clock.until(at));
            let woken = self.wake.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// Ends the thread that waits in [`Timer::next`].
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.wake.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget(&mut self, due: Due) {
        let _ = self.due.remove(&due) || self.ends.remove(&due);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.turns -= 1;
        // The next ones go together: one commit has most of them.
        let is_last = state.turns == 0;
        drop(state);
        if is_last {
            self.0.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn leases_come_in_order_of_time_and_an_earlier_one_wakes_the_thread() {
        let (timer, clock) = (Arc::new(Timer::default()), Clock::start());
        let now = clock.now();
        let later = |ms| now + Duration::from_millis(ms);
        let mut armed = [Instant::default(); 2];
        timer.arm(&mut armed[0], 1, later(3_600_000), now);
        std::thread::scope(|scope| {
            let found = scope.spawn(|| timer.next(&clock).unwrap().0);
            timer.arm(&mut armed[1], 2, later(20), now);
            assert_eq!(found.join().unwrap(), 2);
        });
        assert!(clock.now() >= later(20));
        timer.close();
        assert!(timer.next(&clock).is_none());
    }

    #[test]
    fn a_lease_has_one_time_the_earliest_one_that_is_not_over() {
        let (timer, mut armed) = (Timer::default(), Instant::default());
        for (time, now, expected) in [(3, 0, 3), (2, 0, 2), (5, 0, 2), (5, 2, 5), (4, 3, 4)] {
            timer.arm(&mut armed, 1, at(time), at(now));
            let state = timer.lock();
            assert!(state.due.iter().eq(&[(at(expected), 1)]), "{state:?}");
        }
        timer.forget(armed, 1);
        assert!(timer.lock().due.is_empty());
    }

    #[test]
    fn so_many_ends_have_a_turn_and_a_lease_that_is_due_goes_before_them() {
        let (timer, clock) = (Arc::new(Timer::default()), Clock::start());
        let last = ENDS_AT_ONCE as u64;
        (0..=last).for_each(|hash| timer.postpone(&mut at(0), hash, at(0)));
        let turns: Vec<_> = (0..last).map(|_| timer.next(&clock).unwrap()).collect();
        assert!(turns.iter().all(|(_, turn)| turn.is_some()));
        // There is no further turn, so only this lease can be next.
        let soon = clock.now() + Duration::from_millis(20);
        timer.arm(&mut at(0), 1_000, soon, at(0));
        let (hash, turn) = timer.next(&clock).unwrap();
        assert!(hash == 1_000 && turn.is_none());
        drop(turns);
        assert_eq!(timer.next(&clock).unwrap().0, last);
        assert!(timer.lock().ends.is_empty());
    }

    #[test]
    fn an_end_that_a_request_has_recorded_leaves_and_ends_rest_after_an_undo() {
        let (timer, clock) = (Arc::new(Timer::default()), Clock::start());
        let mut armed = [Instant::default(); 2];
        timer.postpone(&mut armed[0], 1, at(1));
        timer.postpone(&mut armed[1], 2, at(1));
        let hour = clock.now() + Duration::from_secs(3_600);
        timer.arm(&mut armed[0], 1, hour, clock.now());
        let until = clock.now() + Duration::from_millis(20);
        timer.rest_until(until);
        assert_eq!(timer.next(&clock).unwrap().0, 2);
        assert!(clock.now() >= until);
        assert!(timer.lock().due.iter().eq(&[(hour, 1)]));
    }
}

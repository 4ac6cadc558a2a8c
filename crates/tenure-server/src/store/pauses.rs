//! The pauses between the repeated requests of waiting candidates.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::Instant;
use tenure_core::lease::LeaseId;

use crate::model::LeaseKey;

/// The longest pause between two requests of a candidate that still waits.
const LONGEST: Duration = Duration::from_secs(10);

/// The maximum number of pauses: some ten megabytes. The oldest are forgotten.
const MOST: usize = 65_536;

/// The candidates whose waiting requests have ended a moment ago, and since when they had waited.
///
/// A candidate asks to wait for one lease duration at most, and then sends the next request under
/// the same lease id. People want to know since when it has waited in all.
#[derive(Debug, Default)]
pub(super) struct Pauses(Mutex<State>);

type Id = (LeaseKey, LeaseId);

/// A pause, and the time since which its candidate has waited.
#[derive(Clone, Copy, Debug)]
struct Pause {
    begun: Instant,
    since: Instant,
}

#[derive(Debug, Default)]
struct State {
    pauses: HashMap<Id, Pause>,
    /// The pauses in the order of their beginnings. A pause that has ended may still be here.
    begun: VecDeque<(Instant, Id)>,
}

impl Pauses {
    /// Records that a request under this lease id has left the queue without a grant. Its candidate
    /// has waited since `since`.
    pub(super) fn begin(&self, key: &LeaseKey, lease_id: LeaseId, since: Instant, now: Instant) {
        let mut state = self.lock();
        state.forget(now);
        let id = (key.clone(), lease_id);
        let begun = now;
        state.pauses.insert(id.clone(), Pause { begun, since });
        state.begun.push_back((now, id));
    }

    /// Ends the pause of the candidate with this lease id. Returns since when the candidate has
    /// waited, if its pause was short.
    pub(super) fn end(&self, key: &LeaseKey, lease_id: LeaseId, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        state.forget(now);
        let pause = state.pauses.remove(&(key.clone(), lease_id));
        pause.map(|pause| pause.since)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget(&mut self, now: Instant) {
        while let Some((begun, id)) = self.begun.front()
            && (now.since(*begun) > LONGEST || self.begun.len() >= MOST)
        {
            // The candidate may have begun another pause since.
            if self
                .pauses
                .get(id)
                .is_some_and(|pause| pause.begun == *begun)
            {
                self.pauses.remove(id);
            }
            self.begun.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::default() + Duration::from_secs(secs)
    }

    fn id(number: u64) -> LeaseId {
        LeaseId::from_random_bits(0, number)
    }

    #[test]
    fn a_short_pause_does_not_end_a_wait_and_a_long_one_does() {
        let (pauses, key) = (Pauses::default(), LeaseKey::of_text("ns/job"));
        pauses.begin(&key, id(1), at(3), at(20));
        assert_eq!(pauses.end(&key, id(2), at(21)), None);
        assert_eq!(pauses.end(&LeaseKey::of_text("ns/x"), id(1), at(21)), None);
        assert_eq!(pauses.end(&key, id(1), at(30)), Some(at(3)));
        assert_eq!(pauses.end(&key, id(1), at(30)), None);
        pauses.begin(&key, id(1), at(3), at(40));
        assert_eq!(pauses.end(&key, id(1), at(51)), None);
        // The first pause is over, and the second one counts.
        for begun in [60, 65] {
            pauses.begin(&key, id(1), at(3), at(begun));
            assert_eq!(pauses.end(&key, id(1), at(begun + 1)), Some(at(3)));
        }
        pauses.begin(&key, id(1), at(3), at(70));
        assert_eq!(pauses.end(&key, id(1), at(75)), Some(at(3)));
    }

    #[test]
    fn the_memory_for_pauses_is_bounded() {
        let (pauses, key) = (Pauses::default(), LeaseKey::of_text("ns/job"));
        for number in 0..MOST as u64 + 10 {
            pauses.begin(&key, id(number), at(3), at(20));
        }
        let state = pauses.lock();
        assert!(state.begun.len() <= MOST && state.pauses.len() <= MOST);
    }
}

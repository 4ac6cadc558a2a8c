//! A gate: the greatest epoch seen so far.

use std::sync::atomic::{AtomicU64, Ordering};

use tenure_core::Epoch;

/// The greatest epoch seen so far: it admits an epoch that is at least as great, and rejects a smaller
/// one. For one election, on any number of threads, without a lock.
///
/// It lives in memory; the [module](super) says what that does not cover. **Store the epoch with the
/// data**, and start the gate from it.
///
/// A gate orders epochs, not the writes that follow. To make both one step, admit the epoch while you
/// hold the lock that the write needs:
///
/// ```
/// use std::sync::Mutex;
/// use tenure::Epoch;
/// use tenure::fence::{Gate, Stale};
///
/// struct Ledger {
///     gate: Gate,
///     entries: Mutex<Vec<String>>,
/// }
///
/// impl Ledger {
///     fn append(&self, epoch: Epoch, entry: &str) -> Result<(), Stale> {
///         let mut entries = self.entries.lock().unwrap();
///         self.gate.admit(epoch)?;
///         entries.push(entry.to_owned());
///         Ok(())
///     }
/// }
///
/// let ledger = Ledger { gate: Gate::new(), entries: Mutex::default() };
/// let (old, new) = (Epoch::new(7).unwrap(), Epoch::new(9).unwrap());
/// assert!(ledger.append(old, "from the old leader").is_ok());
/// assert!(ledger.append(new, "from the new leader").is_ok());
/// let stale = ledger.append(old, "from the old leader, late").unwrap_err();
/// assert_eq!(stale.to_string(), "epoch 7 is stale: epoch 9 was seen");
/// ```
#[derive(Debug, Default)]
pub struct Gate {
    highest: AtomicU64,
}

/// An epoch that is smaller than one seen before: it comes from a stale leader.
/// Nothing has changed; that leader should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("epoch {refused} is stale: epoch {current} was seen")]
pub struct Stale {
    /// The rejected epoch.
    pub refused: Epoch,
    /// The greatest epoch seen so far.
    pub current: Epoch,
}

impl Gate {
    /// A gate that has seen no epoch, and admits any first one. For data that begin with this process;
    /// otherwise use [`Gate::starting_at`].
    #[must_use]
    pub const fn new() -> Self {
        Self {
            highest: AtomicU64::new(0),
        }
    }

    /// A gate that has seen `epoch`: the greatest one stored with the data. Without it, a stale write
    /// that was rejected before a restart is admitted after it.
    #[must_use]
    pub const fn starting_at(epoch: Epoch) -> Self {
        Self {
            highest: AtomicU64::new(epoch.get()),
        }
    }

    /// Admits `epoch` if it is at least the greatest one seen, and remembers it.
    ///
    /// # Errors
    ///
    /// [`Stale`], with both epochs, if it is smaller. The gate is unchanged.
    pub fn admit(&self, epoch: Epoch) -> Result<(), Stale> {
        // One atomic step compares and raises. Loading first and storing then would let two threads
        // pass each other, and the smaller epoch lower the gate.
        let seen = self.highest.fetch_max(epoch.get(), Ordering::AcqRel);
        if epoch.get() >= seen {
            Ok(())
        } else {
            Err(Stale {
                refused: epoch,
                current: known(seen),
            })
        }
    }

    /// The greatest epoch seen; epoch 0 if there was none.
    #[must_use]
    pub fn current(&self) -> Epoch {
        known(self.highest.load(Ordering::Acquire))
    }
}

/// The gate holds only numbers of epochs.
fn known(number: u64) -> Epoch {
    Epoch::new(number).unwrap_or(Epoch::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Barrier;
    use std::thread;

    fn epoch(number: u64) -> Epoch {
        Epoch::new(number).unwrap()
    }

    #[test]
    fn a_greater_epoch_raises_the_gate_an_equal_one_passes_and_a_smaller_one_is_rejected() {
        let gate = Gate::new();
        for passes in [0, 0, 5, 5, 6, 9, 9] {
            assert_eq!(gate.admit(epoch(passes)), Ok(()));
            assert_eq!(gate.current(), epoch(passes));
        }
        for refused in [0, 5, 8] {
            let (refused, current) = (epoch(refused), epoch(9));
            assert_eq!(gate.admit(refused), Err(Stale { refused, current }));
        }
        assert_eq!(gate.current(), epoch(9), "a refusal changes nothing");
        assert_eq!(gate.admit(epoch(9)), Ok(()));
    }

    #[test]
    fn a_gate_starts_at_the_stored_epoch() {
        let gate = Gate::starting_at(epoch(7));
        assert_eq!(gate.current(), epoch(7));
        assert!(gate.admit(epoch(6)).is_err());
        assert!(gate.admit(epoch(7)).is_ok());
        assert!(gate.admit(Epoch::MAX).is_ok());
        assert_eq!(gate.current(), Epoch::MAX);
    }

    #[test]
    fn a_refusal_names_both_epochs() {
        let gate = Gate::starting_at(epoch(1_795_230_310_385));
        let text = gate
            .admit(epoch(1_795_230_300_000))
            .unwrap_err()
            .to_string();
        assert!(text.contains("1795230310385") && text.contains("1795230300000"));
    }

    proptest! {
        /// Against the obvious model: an epoch passes if no greater one has passed before.
        #[test]
        fn a_gate_is_the_maximum_of_the_epochs_that_it_admitted(
            start in 0..20_u64,
            epochs in prop::collection::vec(0..40_u64, 0..100),
        ) {
            let gate = Gate::starting_at(epoch(start));
            let mut admitted = vec![start];
            for number in epochs {
                let greatest = *admitted.iter().max().unwrap();
                let answer = gate.admit(epoch(number));
                prop_assert_eq!(answer.is_ok(), number >= greatest);
                if answer.is_ok() {
                    admitted.push(number);
                }
                prop_assert_eq!(gate.current().get(), *admitted.iter().max().unwrap());
            }
        }
    }

    /// When the admission of an epoch has returned, on any thread, the gate is never below it again,
    /// and admits no smaller epoch.
    #[test]
    fn no_thread_passes_with_a_smaller_epoch_than_another_thread_before() {
        const THREADS: u64 = 4;
        const ROUNDS: u64 = 200_000;
        let gate = Gate::new();
        // The greatest epoch whose admission is known to have returned.
        let returned = AtomicU64::new(0);
        let start = Barrier::new(4);
        let race = |thread: u64| {
            start.wait();
            // Neighbouring epochs belong to different threads.
            for number in (0..ROUNDS).map(|round| round * THREADS + thread) {
                let floor = returned.load(Ordering::SeqCst);
                if gate.admit(epoch(number)).is_ok() {
                    assert!(number >= floor, "{number} passed after {floor}");
                    returned.fetch_max(number, Ordering::SeqCst);
                }
                let floor = returned.load(Ordering::SeqCst);
                let current = gate.current().get();
                assert!(current >= floor, "at {current} after {floor} has passed");
            }
        };
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let race = &race;
                scope.spawn(move || race(thread));
            }
        });
        assert_eq!(gate.current().get(), ROUNDS * THREADS - 1);
    }
}

//! Fencing: a receiver of writes refuses the epochs of earlier leaders.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::Epoch;

/// Admits an epoch that is at least the greatest epoch seen so far, and refuses a smaller one. A
/// gate serves one election, on any number of threads, without a lock.
///
/// It protects only the writes that call [`admit`](Self::admit) first, and it loses its state at a
/// restart. **Store the epoch with the data**, and start the gate from it.
///
/// A gate orders epochs, not the writes that follow. To make the check and the write one step, call
/// the gate while you hold the lock of the write:
///
/// ```
/// use std::sync::Mutex;
/// # use tenure_core::Epoch;
/// # use tenure_core::fence::{Gate, Stale};
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

/// The epoch is smaller than one that the gate has seen, so its leader has been replaced and should
/// stop. The gate is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("epoch {refused} is stale: epoch {current} was seen")]
pub struct Stale {
    /// The refused epoch.
    pub refused: Epoch,
    /// The greatest epoch seen so far.
    pub current: Epoch,
}

impl Gate {
    /// Creates a gate that has seen no epoch, and admits the first one. Use it for data that begins
    /// with this process, and [`Gate::starting_at`] otherwise.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            highest: AtomicU64::new(0),
        }
    }

    /// Creates a gate that has seen `epoch`, the greatest epoch that was stored with the data.
    /// Without it, the gate would accept after a restart a write of an old leader that it refused
    /// before.
    #[must_use]
    pub const fn starting_at(epoch: Epoch) -> Self {
        Self {
            highest: AtomicU64::new(epoch.get()),
        }
    }

    /// Admits `epoch` and records it if it is at least the greatest epoch seen so far.
    ///
    /// # Errors
    ///
    /// [`Stale`] if it is smaller. The gate is unchanged.
    pub fn admit(&self, epoch: Epoch) -> Result<(), Stale> {
        // One atomic step compares and raises the epoch. With a separate load and store, two
        // threads could interleave so that the smaller epoch lowers the gate.
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

    /// Returns the greatest epoch seen so far; epoch 0 if there was none.
    #[must_use]
    pub fn current(&self) -> Epoch {
        known(self.highest.load(Ordering::Acquire))
    }
}

/// Converts a stored number, which was an epoch before, back to an epoch.
fn known(number: u64) -> Epoch {
    Epoch::new(number).unwrap_or(Epoch::MAX)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::string::ToString;

    use super::*;
    use proptest::prelude::*;
    use std::sync::Barrier;
    use std::{thread, vec};

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
        /// Compares the gate with a simple model: an epoch passes if no greater one has passed
        /// before.
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

    /// Once the admission of an epoch has returned on any thread, the gate is never below that
    /// epoch again, and admits no smaller epoch.
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

//! The number of keys in one answer of etcd.

use std::time::Duration;

/// The number of keys in the next answer. It adapts to the sizes and times of the answers, because an
/// answer must arrive within the time of an attempt.
///
/// Large pages are faster: for each page etcd visits all keys up to the end of the range.
#[derive(Debug)]
pub(super) struct PageSize {
    /// The greatest number of keys to ask for.
    pub(super) next: usize,
    most: usize,
    attempt: Duration,
}

impl PageSize {
    pub(super) const fn new(next: usize, most: usize, attempt: Duration) -> Self {
        Self {
            next,
            most,
            attempt,
        }
    }

    /// Adapts to the bytes of an answer, which took this long; `None` if there was no answer.
    pub(super) fn adapt(&mut self, bytes: Option<usize>, took: Duration) {
        /// Larger answers are hardly faster.
        const LARGE: usize = 2 * 1024 * 1024;
        self.next = match bytes {
            None => (self.next / 4).max(1),
            Some(bytes) if bytes > LARGE || took > self.attempt / 2 => (self.next / 2).max(1),
            Some(bytes) if bytes < LARGE / 2 && took < self.attempt / 8 => {
                self.most.min(self.next * 2)
            }
            Some(_) => self.next,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_grow_while_answers_are_small_and_quick() {
        const MIB: usize = 1024 * 1024;
        let millis = Duration::from_millis;
        for (bytes, took, next) in [
            (Some(MIB / 2), millis(50), 200),
            (Some(MIB / 2), millis(70), 100),
            (Some(3 * MIB / 2), millis(50), 100),
            (Some(3 * MIB), millis(50), 50),
            (Some(MIB / 2), millis(300), 50),
            (None, millis(500), 25),
        ] {
            let mut pages = PageSize::new(100, 8192, millis(500));
            pages.adapt(bytes, took);
            assert_eq!(pages.next, next, "{bytes:?} in {took:?}");
        }
        let mut pages = PageSize::new(1, 3, millis(500));
        for next in [2, 3, 3] {
            pages.adapt(Some(0), millis(1));
            assert_eq!(pages.next, next);
        }
        for next in [1, 1] {
            pages.adapt(None, millis(500));
            assert_eq!(pages.next, next);
        }
    }
}

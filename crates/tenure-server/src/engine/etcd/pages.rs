//! The number of keys in one answer of etcd.

use std::time::Duration;

/// The number of keys in the next answer. It adapts to the sizes and times of the answers, because an
/// answer must arrive within the time of an attempt.
///
/// Large pages are faster: for each page etcd visits all keys up to the end of the range.
#[derive(Clone, Copy, Debug)]
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

    /// Adapts to the sizes of the values in an answer, which took this long; `None` if there was no
    /// answer. An answer with fewer keys than asked for shows nothing about larger ones.
    pub(super) fn adapt(
        &mut self,
        sizes: Option<impl ExactSizeIterator<Item = usize>>,
        took: Duration,
    ) {
        const SMALL: usize = 256 * 1024;
        /// Larger answers are hardly faster.
        const LARGE: usize = 2 * 1024 * 1024;
        let Some(sizes) = sizes else {
            self.next = (self.next / 4).max(1);
            return;
        };
        let is_full = sizes.len() >= self.next;
        let bytes: usize = sizes.sum();
        // Small pages grow however long an answer took: with a slow etcd, fewer answers are better.
        let may_grow = bytes < SMALL || (bytes < LARGE / 2 && took < self.attempt / 8);
        if bytes > LARGE {
            self.next = (self.next / 2).max(1);
        } else if is_full && may_grow {
            self.next = self.most.min(self.next * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    #[test]
    fn pages_grow_while_answers_are_small_and_quick() {
        const MIB: usize = 1024 * 1024;
        let millis = Duration::from_millis;
        for (keys, bytes, took, next) in [
            (100, MIB / 2, millis(50), 200),
            (99, MIB / 2, millis(50), 100),
            (100, MIB / 2, millis(70), 100),
            (100, 3 * MIB / 2, millis(50), 100),
            (100, 3 * MIB, millis(50), 50),
            (1, 3 * MIB, millis(50), 50),
            (100, MIB / 2, millis(300), 100),
            (100, MIB / 8, millis(450), 200),
        ] {
            let mut pages = PageSize::new(100, 8192, millis(500));
            pages.adapt(Some(iter::repeat_n(bytes.div_ceil(keys), keys)), took);
            assert_eq!(pages.next, next, "{keys} keys, {bytes} bytes in {took:?}");
        }
        let none = || None::<iter::Empty<usize>>;
        let mut pages = PageSize::new(100, 8192, millis(500));
        pages.adapt(none(), millis(500));
        assert_eq!(pages.next, 25);
        let mut pages = PageSize::new(1, 3, millis(500));
        for next in [2, 3, 3] {
            pages.adapt(Some(iter::repeat_n(0, pages.next)), millis(1));
            assert_eq!(pages.next, next);
        }
        for next in [1, 1] {
            pages.adapt(none(), millis(500));
            assert_eq!(pages.next, next);
        }
    }
}
